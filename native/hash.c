/* Fingerprints of numbers: each block of numbers becomes two sums of 64 bits, which Python hashes
 * on (inputs/features.py).
 *
 * A number is mixed with two keys that belong to its place in the block. Each mixture adds the
 * product of its two halves to a sum, modulo 2^64 and so in any order: numbers may come in pieces
 * of any length. */
#include "nearworth.h"

enum {
    PIECE = 256, /* numbers converted at a time */
};

static inline uint64_t halves_multiplied(uint64_t word) {
    return (word & UINT32_MAX) * (word >> 32);
}

/* Adds n numbers to the sums of their blocks. The first number is at place `start` of all numbers.
 * `keys` has block_size keys for the first sum of a block, then as many for the second. */
EXPORT void hash_numbers(
    const void *numbers, int32_t type, int64_t start, const uint64_t *keys, uint64_t *sums,
    int64_t n, int64_t block_size, int64_t n_blocks
) {
    for (int64_t i = 0, count; i < n; i += count) {
        int64_t block = (start + i) / block_size;
        int64_t place = (start + i) % block_size;

        /* A piece ends with its block at the latest. */
        double piece[PIECE];
        count = block_size - place < n - i ? block_size - place : n - i;
        count = count < PIECE ? count : PIECE;
        read_numbers((const char *)numbers + i * item_size[type], type, count, piece);

        uint64_t first_sum = 0;
        uint64_t second_sum = 0;
        for (int64_t j = 0; j < count; j++) {
            /* -0.0 becomes 0.0. */
            double number = piece[j] + 0.0;
            uint64_t word;
            memcpy(&word, &number, sizeof word);
            /* Whole numbers have nothing in their lower half. */
            word ^= word >> 32;
            first_sum += halves_multiplied(word ^ keys[place + j]);
            second_sum += halves_multiplied(word ^ keys[block_size + place + j]);
        }
        if (block < n_blocks) {
            sums[2 * block] += first_sum;
            sums[2 * block + 1] += second_sum;
        }
    }
}
