/* What a program needs that runs without a C library: its beginning, system calls by hand, a few words.
 *
 * For docker-init and for the sleeper. Each is one file that defines `run`, which gets the process's first stack
 * (arguments and environment, as the kernel lays them out) and never returns. */
#ifndef MUXER_BARE_H
#define MUXER_BARE_H

#include <asm/unistd.h>

#define SIG_BLOCK_ALL 2 /* SIG_SETMASK */
#define SIGCHLD 17

typedef unsigned long word;
typedef unsigned long long signals; /* the kernel's sigset_t of eight bytes, on little-endian machines */

#if defined(__x86_64__)
static long call5(long number, word a, word b, word c, word d, word e) {
    register word r10 __asm__("r10") = d;
    register word r8 __asm__("r8") = e;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return result;
}
__asm__(".globl _start\n_start:\n xorl %ebp, %ebp\n movq %rsp, %rdi\n andq $-16, %rsp\n call run\n");
#elif defined(__aarch64__)
static long call5(long number, word a, word b, word c, word d, word e) {
    register word x8 __asm__("x8") = (word)number;
    register word x0 __asm__("x0") = a;
    register word x1 __asm__("x1") = b;
    register word x2 __asm__("x2") = c;
    register word x3 __asm__("x3") = d;
    register word x4 __asm__("x4") = e;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
    return (long)x0;
}
__asm__(".globl _start\n_start:\n mov x29, xzr\n mov x30, xzr\n mov x0, sp\n bl run\n");
#elif defined(__riscv)
static long call5(long number, word a, word b, word c, word d, word e) {
    register word a7 __asm__("a7") = (word)number;
    register word a0 __asm__("a0") = a;
    register word a1 __asm__("a1") = b;
    register word a2 __asm__("a2") = c;
    register word a3 __asm__("a3") = d;
    register word a4 __asm__("a4") = e;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2), "r"(a3), "r"(a4) : "memory");
    return (long)a0;
}
__asm__(".globl _start\n_start:\n .option push\n .option norelax\n la gp, __global_pointer$\n .option pop\n"
        " mv a0, sp\n andi sp, sp, -16\n call run\n");
#elif defined(__arm__)
static long call5(long number, word a, word b, word c, word d, word e) {
    register word r7 __asm__("r7") = (word)number;
    register word r0 __asm__("r0") = a;
    register word r1 __asm__("r1") = b;
    register word r2 __asm__("r2") = c;
    register word r3 __asm__("r3") = d;
    register word r4 __asm__("r4") = e;
    __asm__ volatile("svc 0" : "+r"(r0) : "r"(r7), "r"(r1), "r"(r2), "r"(r3), "r"(r4) : "memory");
    return (long)r0;
}
__asm__(".globl _start\n_start:\n mov r0, sp\n bic sp, sp, #7\n bl run\n");
#else
#error "no system calls are known for this machine"
#endif

static inline long call(long number, word a, word b, word c, word d) { return call5(number, a, b, c, d, 0); }

static inline void leave(int status) {
    for (;;) call(__NR_exit_group, (word)status, 0, 0, 0);
}

static inline word length(const char *text) {
    word size = 0;
    while (text[size]) size++;
    return size;
}

static inline void say(const char *text) { call(__NR_write, 2, (word)text, length(text), 0); }

#endif
