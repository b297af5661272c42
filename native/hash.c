/* Fingerprints of numbers: each block of numbers becomes two sums of 64 bits, which Python hashes
 * on (inputs/features.py).
 *
 * A number is mixed with two keys that belong to its place in the block. Each mixture adds the
 * product of its two halves to a sum, modulo 2^64 and so in any order: numbers may come in pieces
 * of any length. */
#include "nearworth.h"

enum { PIECE = 256 }; /* numbers converted at a time */

static inline uint64_t halves_multiplied(uint64_t word) {
    return (word & UINT32_MAX) * (word >> 32);
}

/* Numbers from place `start` on, with keys for two sums of a block. */
EXPORT void hash_numbers(
    const void *numbers, int32_t type, int64_t start, const uint64_t *keys, uint64_t *sums,
    int64_t n, int64_t block_size, int64_t n_blocks
) {
    for (int64_t i = 0, count; i < n; i += count) {
        int64_t block = (start + i) / block_size, place = (start + i) % block_size;
        double some[PIECE];
        count = block_size - place < n - i ? block_size - place : n - i;
        count = count < PIECE ? count : PIECE;
        read_numbers((const char *)numbers + i * item_size[type], type, count, some);
        uint64_t first = 0, second = 0;
        for (int64_t j = 0; j < count; j++) {
            double number = some[j] + 0.0; /* -0.0 is 0.0 */
            uint64_t word;
            memcpy(&word, &number, sizeof word);
            word ^= word >> 32; /* whole numbers have nothing in their lower half */
            first += halves_multiplied(word ^ keys[place + j]);
            second += halves_multiplied(word ^ keys[block_size + place + j]);
        }
        if (block < n_blocks)
            sums[2 * block] += first, sums[2 * block + 1] += second;
    }
}
