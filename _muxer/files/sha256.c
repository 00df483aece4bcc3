/* The digest of blobs and layers (FIPS 180-4), by the instructions that many processors have for it.
 *
 * Python's hashlib is as fast, by OpenSSL, whose library takes some megabytes that nothing else in a daemon needs. Where
 * the processor lacks the instructions, or this file the use of them, hashlib is asked (engine/daemon/images/content.py). */
#include "muxer.h"

#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

#define BLOCK 64u
#define SSSE3_AND_SSE41 (1u << 9 | 1u << 19) /* leaf 1, ecx */
#define SHA (1u << 29)                       /* leaf 7, ebx */

int mux_sha256_fits(void) {
    unsigned a, b, c, d, more, features;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & SSSE3_AND_SSE41) != SSSE3_AND_SSE41) return 0;
    return __get_cpuid_count(7, 0, &more, &features, &c, &d) && features & SHA;
}

static const uint32_t ROUNDS[64] __attribute__((aligned(16))) = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
    0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
    0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08,
    0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

/* The processor keeps the words a to h as ABEF and CDGH (Intel's manual, SHA256RNDS2). */
__attribute__((target("sha,sse4.1,ssse3"))) static void compress(uint32_t *words, const uint8_t *bytes, size_t blocks) {
    const __m128i turned = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i cdab = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)words), 0xb1);
    __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(words + 4)), 0x1b);
    __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
    for (; blocks > 0; blocks--, bytes += BLOCK) {
        const __m128i abef_before = abef, cdgh_before = cdgh;
        __m128i w[4];
        for (int i = 0; i < 4; i++)
            w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(bytes + 16 * i)), turned);
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            __m128i sum = _mm_add_epi32(w[i % 4], _mm_load_si128((const __m128i *)(ROUNDS + 4 * i)));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
            if (i >= 12) continue; /* the last words are made */
            __m128i last = w[(i + 3) % 4], between = _mm_alignr_epi8(last, w[(i + 2) % 4], 4);
            sum = _mm_add_epi32(_mm_sha256msg1_epu32(w[i % 4], w[(i + 1) % 4]), between);
            w[i % 4] = _mm_sha256msg2_epu32(sum, last);
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128((__m128i *)words, _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128((__m128i *)(words + 4), _mm_alignr_epi8(dchg, feba, 8));
}

void mux_sha256_begin(struct mux_sha256 *sum) {
    static const uint32_t first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(sum->words, first, sizeof first);
    sum->size = 0;
}

void mux_sha256_update(struct mux_sha256 *sum, const uint8_t *bytes, size_t size) {
    size_t held = sum->size % BLOCK;
    sum->size += size;
    if (held > 0) {
        size_t some = size < BLOCK - held ? size : BLOCK - held;
        memcpy(sum->held + held, bytes, some);
        if (held + some < BLOCK) return;
        compress(sum->words, sum->held, 1);
        bytes += some;
        size -= some;
    }
    compress(sum->words, bytes, size / BLOCK);
    if (size % BLOCK > 0) memcpy(sum->held, bytes + size / BLOCK * BLOCK, size % BLOCK);
}

void mux_sha256_digest(const struct mux_sha256 *sum, uint8_t *digest) {
    uint8_t last[2 * BLOCK] = {0};
    uint32_t words[8];
    size_t held = sum->size % BLOCK, blocks = held + 1 + 8 > BLOCK ? 2 : 1;
    memcpy(last, sum->held, held);
    last[held] = 0x80;
    for (size_t i = 0; i < 8; i++) last[blocks * BLOCK - 1 - i] = (uint8_t)(sum->size * 8 >> 8 * i);
    memcpy(words, sum->words, sizeof words);
    compress(words, last, blocks);
    for (size_t i = 0; i < 32; i++) digest[i] = (uint8_t)(words[i / 4] >> (24 - i % 4 * 8));
}
#else
int mux_sha256_fits(void) { return 0; }
void mux_sha256_begin(struct mux_sha256 *sum) { (void)sum; }
void mux_sha256_update(struct mux_sha256 *sum, const uint8_t *bytes, size_t size) { (void)sum, (void)bytes, (void)size; }
void mux_sha256_digest(const struct mux_sha256 *sum, uint8_t *digest) { (void)sum, (void)digest; }
#endif
