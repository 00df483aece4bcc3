/* What the half of a monitor that stays is told: the handover with its descriptors, the reports of a birth, and what a
 * daemon asks for. */
#include "place.h"

#include "../../../../_muxer/process/keeper.c" /* for what is static in there */

#include "../../../../_muxer/process/finish.c"
#include "../../../../_muxer/process/messages.c"

/* No log is compressed here: that is another program's work. */
pid_t fork_with(bool own_pids, int *pidfd) { return (void)own_pids, (void)pidfd, -1; }

/* A message to a container that runs, sound but for some bytes; the descriptor comes with one for a new client. */
static void ask(int to, int client, struct choices *choices) {
    static const char *const ASKED[] = {
        "J{\"@\":\"Attach\",\"#\":\"00000000\",\"client\":{\"@\":\"Client\",\"streams\":7,\"framed\":true,"
        "\"detach\":{\"@bytes\":\"EBE=\"},\"replay\":true},\"after\":[18446744073709551615,123]}",
        "J{\"@\":\"Resize\",\"#\":\"00000000\",\"rows\":24,\"columns\":80}"};
    char message[256];
    unsigned kind = number(choices, 1);
    size_t size = strlen(ASKED[kind]);
    memcpy(message, ASKED[kind], size);
    for (unsigned changes = number(choices, 4); changes > 0; changes--) {
        unsigned at = number(choices, 255);
        message[at % size] = (char)number(choices, 255);
    }
    pass_on(to, message, size, &client, kind == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static struct mux_stay stay;
    static struct mux_handover handed;
    struct choices choices = {bytes, size};
    int ends[2], link[2], fds[16], clients[MUX_MOST_FDS], count = (int)number(&choices, 15), taken;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) abort();
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, link) < 0) abort();
    memset(&stay, 0, sizeof stay);
    memset(&handed, 0, sizeof handed);
    stay.launcher = ends[1];
    stay.launching_end = stay.pidfd = -1;
    /* Sound but for some bytes; how many descriptors come with it is a matter of its own. */
    int32_t *flags[] = {&handed.has_process, &handed.has_home, &handed.has_mounts, &handed.has_log,
                        &handed.has_input,   &handed.has_stdout, &handed.has_stderr, &handed.tty};
    int wanted = 1;
    static const int DESCRIPTORS[] = {1, 2, 1, 3, 1, 1, 1, 0};
    for (int i = 0; i < 8; i++) {
        *flags[i] = (int32_t)number(&choices, 1);
        wanted += *flags[i] * DESCRIPTORS[i];
    }
    if (number(&choices, 7)) count = wanted;
    handed.client_count = number(&choices, 3);
    handed.log.max_files = 1;
    handed.log.json = handed.has_log && number(&choices, 3) == 0;
    size_t all = handover_size(&handed);
    for (uint32_t i = 0; i < handed.client_count; i++) {
        handed.clients[i].streams = (uint8_t)number(&choices, 7);
        handed.clients[i].detach_size = (uint8_t)number(&choices, 255);
    }
    for (unsigned changes = number(&choices, 4); changes > 0; changes--) {
        unsigned at = number(&choices, 0xffff);
        ((uint8_t *)&handed)[at % all] = (uint8_t)number(&choices, 255);
    }
    if (number(&choices, 7) == 7) all = number(&choices, 0xffff) % (sizeof handed + 1);
    for (int i = 0; i < count && i < 16; i++) fds[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (count > 0) close(fds[0]), fds[0] = fcntl(link[1], F_DUPFD_CLOEXEC, 0);
    pass_on(ends[1], &handed, all, fds, count);
    for (int i = 0; i < count && i < 16; i++) close(fds[i]);
    if (handed.client_count > 0 && handed.client_count <= 250) {
        for (uint32_t i = 0; i < handed.client_count % 4; i++) clients[i] = link[1];
        pass_on(ends[1], "", 1, clients, (int)(handed.client_count % 4));
    }
    struct choices late = choices; /* for what is asked after that */
    /* The reports: the rest, in datagrams. */
    while (choices.left > 0) {
        size_t some = number(&choices, 40);
        if (some > choices.left) some = choices.left;
        if (some > 0 && send(ends[1], choices.bytes, some, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) break;
        choices.bytes += some;
        choices.left -= some;
    }
    close(ends[1]);
    int told, passed[MUX_MOST_FDS];
    taken = take_over(&stay, ends[0], &told, passed);
    if (taken > 0 && told > 0 && !stay.handed.has_process) {
        struct mux_stay born = stay; /* what comes of it is not gone on with: there is no child */
        if (await_birth(&born, ends[0]) > 0) abort();
        if (born.terminal >= 0) close(born.terminal);
        stay.handed.has_process = 0;
        stay.terminal = -1;
    }
    bool begun = taken > 0 && told > 0 && begin(&stay, told, passed) == 0;
    if (begun) {
        for (int asked = 0; stay.link >= 0 && asked < 3; asked++) {
            ask(link[0], link[0], &late);
            fcntl(stay.link, F_SETFL, O_NONBLOCK), hear(&stay);
        }
        if (stay.link >= 0) fcntl(stay.link, F_SETFL, O_NONBLOCK), hear_of_waiters(&stay);
        mux_pump_drain(stay.pump);
    }
    if (stay.waiters) mux_waiters_free(stay.waiters);
    if (stay.pump) mux_pump_free(stay.pump);
    /* Whoever is in the middle of it ends as a process does, with all its descriptors. */
    for (int fd = 3; fd < 64; fd++) close(fd);
    return 0;
}
