// Compares a vectored write of 100 messages, between which lie gaps of the same length, with copying these messages
// together and writing them as one slice. Prints the median processor time per message of 101 writes of each kind.
//
// cc -O2 slices.c -o slices -lpthread && taskset -c 0 ./slices

#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { MESSAGES = 100, ROUNDS = 101, BLOCK = 512 << 10, BLOCKS = 100 };

static char source[BLOCKS][BLOCK], joined[BLOCK];

static double cpu_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static void *drain(void *socket) {
    static char buffer[1 << 20];
    while (read((int)(long)socket, buffer, sizeof buffer) > 0) {
    }
    return NULL;
}

static int open_target(int target) {
    if (target == 0) return open("out", O_CREAT | O_TRUNC | O_WRONLY, 0600);
    if (target == 1) return open("/dev/null", O_WRONLY);
    int ends[2], size = 1 << 20;
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    pthread_t thread;
    pthread_create(&thread, NULL, drain, (void *)(long)ends[1]);
    return ends[0];
}

static void write_slices(int target, struct iovec *slices, int count) {
    while (count > 0) {
        ssize_t written = writev(target, slices, count);
        if (written <= 0) exit(1);
        while (count > 0 && (size_t)written >= slices->iov_len) {
            written -= slices->iov_len;
            slices++;
            count--;
        }
        if (count > 0) {
            slices->iov_base = (char *)slices->iov_base + written;
            slices->iov_len -= written;
        }
    }
}

static double measure(int target, size_t length, int copies) {
    char *block = source[rand() % BLOCKS];
    // The messages are in the cache, as after they were decoded.
    for (size_t at = 0; at < MESSAGES * length * 2; at += 64) block[at]++;
    if (lseek(target, 0, SEEK_CUR) > 256 << 20) lseek(target, 0, SEEK_SET);
    double start = cpu_ns();
    struct iovec slices[MESSAGES];
    for (int number = 0; number < MESSAGES; number++) {
        slices[number] = (struct iovec){block + number * 2 * length, length};
    }
    if (copies) {
        for (int number = 0; number < MESSAGES; number++) {
            memcpy(joined + number * length, slices[number].iov_base, length);
        }
        slices[0] = (struct iovec){joined, MESSAGES * length};
    }
    write_slices(target, slices, copies ? 1 : MESSAGES);
    return (cpu_ns() - start) / MESSAGES;
}

static int compare(const void *a, const void *b) {
    double difference = *(const double *)a - *(const double *)b;
    return difference < 0 ? -1 : difference > 0;
}

int main(void) {
    const size_t lengths[] = {128, 256, 384, 512, 640, 768, 1024, 1536, 2048};
    const char *names[] = {"file", "null", "unix"};
    memset(source, 'x', sizeof source);
    memset(joined, 'y', sizeof joined);
    for (int target = 0; target < 3; target++) {
        int descriptor = open_target(target);
        for (size_t size = 0; size < sizeof lengths / sizeof *lengths; size++) {
            double sliced[ROUNDS], copied[ROUNDS];
            for (int round = 0; round < ROUNDS; round++) {
                sliced[round] = measure(descriptor, lengths[size], 0);
                copied[round] = measure(descriptor, lengths[size], 1);
            }
            qsort(sliced, ROUNDS, sizeof *sliced, compare);
            qsort(copied, ROUNDS, sizeof *copied, compare);
            printf("%s %4zu bytes: slices %6.1f ns, copy %6.1f ns\n", names[target], lengths[size],
                   sliced[ROUNDS / 2], copied[ROUNDS / 2]);
        }
    }
}
