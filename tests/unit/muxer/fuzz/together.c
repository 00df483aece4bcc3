/* A writer and two who read along, on threads, for ThreadSanitizer: they share files, and nothing else of the muxer's.
 *
 *     together SECONDS */
#include "place.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <time.h>

static int ended;

static void *follow(void *tail) {
    int sink = open("/dev/null", O_WRONLY | O_CLOEXEC);
    struct mux_query query = {.want_stdout = 1, .want_stderr = 1, .timestamps = 1, .last_ns = UINT64_MAX, .tail = *(int *)tail};
    if (mux_send(place(), sink, &query, ended) != 1) abort();
    close(sink);
    return NULL;
}

int main(int argc, char **argv) {
    int seconds = argc > 1 ? atoi(argv[1]) : 1, tails[] = {-1, 5}, outputs[2], directory;
    char name[NAME_SIZE], line[200];
    uint8_t header[INDEX_HEADER_SIZE];
    struct mux_event event;
    pthread_t readers[2];
    if (pipe2(outputs, O_CLOEXEC | O_NONBLOCK) < 0) abort();
    directory = open(place(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ended = eventfd(0, EFD_CLOEXEC);
    int bell = eventfd(1, EFD_CLOEXEC);
    struct mux_log log = {.directory_fd = directory, .number = 1, .max_files = 3, .max_size = 20000, .limit = 20000};
    index_header_pack(header, 1);
    log_name(name, 1);
    log.log_fd = make(directory, name, "", 0);
    index_name(name, 1);
    log.index_fd = make(directory, name, header, sizeof header);
    struct mux_pump *pump = mux_pump_new(&log, 0);
    if (!pump || mux_pump_add_output(pump, 1, outputs[0]) < 0) abort();
    mux_pump_watch(pump, bell);
    for (int i = 0; i < 2; i++)
        if (pthread_create(&readers[i], NULL, follow, &tails[i]) != 0) abort();
    long lines = 0;
    memset(line, 'x', sizeof line);
    line[sizeof line - 1] = '\n';
    for (time_t last = time(NULL) + seconds; time(NULL) < last; lines++) {
        if (write(outputs[1], line, 1 + (size_t)(lines % 199)) < 0 || mux_pump_run(pump, &event) < 0) abort();
    }
    mux_pump_drain(pump);
    if (eventfd_write(ended, 1) < 0) abort();
    for (int i = 0; i < 2; i++) pthread_join(readers[i], NULL);
    mux_pump_free(pump);
    printf("%ld chunks\n", lines);
    return 0;
}
