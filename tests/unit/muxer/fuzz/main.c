/* In the place of libFuzzer, for a compiler that has none: the target with so many inputs of a simple generator.
 *
 *     TARGET COUNT SEED */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int main(int argc, char **argv) {
    static uint8_t bytes[2048];
    long count = argc > 1 ? atol(argv[1]) : 1;
    uint64_t state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    for (long done = 0; done < count; done++) {
        size_t size = 0, most = 16u << (done % 8);
        while (size < most) {
            state ^= state << 13, state ^= state >> 7, state ^= state << 17; /* xorshift64 */
            /* Small numbers are more often sense than large ones. */
            bytes[size++] = (uint8_t)(state & 0x100 ? state >> 56 : state >> 61);
        }
        LLVMFuzzerTestOneInput(bytes, size);
    }
    printf("%ld inputs\n", count);
    return 0;
}
