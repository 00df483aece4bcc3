/* What the proxy may do, once it has begun: talk over the sockets that it has, and make sockets and pipes.
 *
 * It reads bytes of strangers, so it gives up each capability, and the kernel refuses it (EPERM) each system call that
 * it does not need: it opens no file and executes no program. A transparent proxy keeps CAP_NET_RAW. Since it can make
 * only sockets of streams and datagrams of the Internet protocols, that is the right to send from others' addresses in
 * its own network, and no more. The C version of engine/proxy/confine.py. */
#include "muxer.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define MACHINE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define MACHINE AUDIT_ARCH_AARCH64
#elif defined(__riscv) && __riscv_xlen == 64
#define MACHINE AUDIT_ARCH_RISCV64
#elif defined(__arm__)
#define MACHINE AUDIT_ARCH_ARM
#endif

static const unsigned int ALLOWED[] = {
    SYS_accept4,  SYS_brk,        SYS_close,      SYS_connect,  SYS_epoll_create1, SYS_epoll_ctl, SYS_epoll_pwait,
    SYS_bind,     SYS_getsockname,
    SYS_exit,     SYS_exit_group, SYS_fcntl,      SYS_getpid,   SYS_getsockopt,   SYS_madvise,
    SYS_mremap,   SYS_munmap,     SYS_pipe2,      SYS_recvfrom, SYS_recvmsg,      SYS_restart_syscall,
    SYS_sendmsg,  SYS_sendto,     SYS_setsockopt, SYS_shutdown, SYS_rt_sigreturn,
    SYS_splice,   SYS_unlinkat,
/* Of similar calls a machine has one, or the C library takes one. */
#ifdef SYS_mmap
    SYS_mmap,
#endif
#ifdef SYS_mmap2
    SYS_mmap2,
#endif
#ifdef SYS_fcntl64
    SYS_fcntl64,
#endif
#ifdef SYS_epoll_wait
    SYS_epoll_wait,
#endif
#ifdef SYS_recv
    SYS_recv,
#endif
#ifdef SYS_send
    SYS_send,
#endif
#ifdef SYS_clock_gettime
    SYS_clock_gettime,
#endif
#ifdef SYS_clock_gettime64
    SYS_clock_gettime64,
#endif
};

#define CALLS (sizeof ALLOWED / sizeof *ALLOWED)
#define ARGUMENT(number) (offsetof(struct seccomp_data, args) + (number) * 8) /* its low half: all are little-endian */
#define X32_BIT 0x40000000u /* x86_64: calls with 32-bit pointers have numbers from here on */

#ifdef MACHINE
/* Installs the filter: a list of comparisons with each number. The kernel remembers the result for each number. */
static int filter(void) {
    struct sock_filter program[CALLS + 20];
    unsigned short size = 0;
    struct sock_filter refuse = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    program[size++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    program[size++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MACHINE, 1, 0);
    program[size++] = refuse;
    program[size++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    program[size++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, (uint8_t)CALLS + 1, 0);
    program[size++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, (uint8_t)CALLS + 2, 0);
    for (size_t i = 0; i < CALLS; i++)
        program[size++] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ALLOWED[i], (uint8_t)(CALLS - i), 0);
    program[size++] = refuse;
    program[size++] = allow;
    /* socket(2): the family, then the type without its flags. */
    program[size++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARGUMENT(0));
    program[size++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET, 1, 0);
    program[size++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 0, 4);
    program[size++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARGUMENT(1));
    program[size++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xf);
    program[size++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SOCK_STREAM, 2, 0);
    program[size++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SOCK_DGRAM, 1, 0);
    program[size++] = refuse;
    program[size++] = allow;
    struct sock_fprog whole = {.len = size, .filter = program};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &whole) < 0 ? -errno : 0;
}
#else
static int filter(void) { return 0; } /* the numbers of this machine's calls are not known here */
#endif

int mux_proxy_confine(int transparent) {
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct kept[2];
    memset(kept, 0, sizeof kept);
    if (transparent) kept[0].effective = kept[0].permitted = 1u << CAP_NET_RAW;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || syscall(SYS_capset, &head, kept) < 0) return -errno;
    int failed = filter();
    return failed == -EINVAL || failed == -ENOSYS ? 0 : failed; /* a kernel without seccomp */
}
