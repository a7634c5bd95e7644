// Attention of whole sequences that writes no matrix of scores (Dao 2023, arXiv:2307.08691), forward and backward.
//
// Compiled with FLASH_WIDTH, the width of a head: 64 or 128. A block of threads takes some queries (or, for the
// gradients of keys and values, some keys) of one head and goes through tiles of the other side; scores and
// weights live in registers. The backward pass computes the weights again from the rows' normalisers. It is two
// kernels, one over keys and one over queries: two products more than in one kernel, but every sum has a fixed order.
#ifdef FLASH_WIDTH

#define WIDTH FLASH_WIDTH
// Pieces of 16 bytes in a row.
#define PIECES (WIDTH / 8)
// Rows of a tile.
#define TILE 64
#define FORWARD_ROWS 128
#define LOG2E 1.4426950408889634f

// Where the heads of a tensor lie, in values.
struct Strides {
    long long batch;
    int head;
    int row;
};

// Where a piece lies in a tile: eight rows of the same piece lie in different banks.
__device__ __forceinline__ u32 place(u32 tile, int row, int piece) {
    return tile + (u32)((row * PIECES + (piece ^ (row & 7))) * 16);
}
// The left factor, rows of the tile: 16 rows from `row` on, columns from 16 · k on.
__device__ __forceinline__ void left_factor(u32* out, u32 tile, int row, int k) {
    int lane = threadIdx.x & 31, matrix = lane >> 3;
    load_4(out, place(tile, row + (lane & 7) + (matrix & 1) * 8, 2 * k + (matrix >> 1)));
}
// The right factor for a product with the transposed tile: two times 8 rows, columns from 16 · k on.
__device__ __forceinline__ void right_factor(u32* out, u32 tile, int row, int k) {
    int lane = threadIdx.x & 31, matrix = lane >> 3;
    load_4(out, place(tile, row + (lane & 7) + (matrix >> 1) * 8, 2 * k + (matrix & 1)));
}
// The right factor for a product with the tile: 16 rows from `row` on, two times 8 columns from 16 · n on.
__device__ __forceinline__ void right_factor_plain(u32* out, u32 tile, int row, int n) {
    int lane = threadIdx.x & 31, matrix = lane >> 3;
    load_4_transposed(out, place(tile, row + (lane & 7) + (matrix & 1) * 8, 2 * n + (matrix >> 1)));
}

// Rows `first ..` of a head begin to arrive; those after the last token are zeros.
template <int rows>
__device__ __forceinline__ void fetch(u32 tile, const bf16* head, int stride, int first, int tokens) {
    for (int at = threadIdx.x; at < rows * PIECES; at += blockDim.x) {
        int row = at / PIECES, piece = at % PIECES;
        bool real = first + row < tokens;
        copy_16(place(tile, row, piece), head + (real ? (long long)(first + row) * stride + 8 * piece : 0), real);
    }
}

// x[16 × 64] = 16 rows of one tile · all rows of another, transposed.
__device__ __forceinline__ void scores(float (*x)[4], u32 left, int row, u32 right) {
    #pragma unroll
    for (int n = 0; n < TILE / 8; n++) x[n][0] = x[n][1] = x[n][2] = x[n][3] = 0.0f;
    #pragma unroll
    for (int k = 0; k < WIDTH / 16; k++) {
        u32 a[4], b[4];
        left_factor(a, left, row, k);
        #pragma unroll
        for (int n = 0; n < TILE / 16; n++) {
            right_factor(b, right, 16 * n, k);
            multiply(x[2 * n], a, b[0], b[1]);
            multiply(x[2 * n + 1], a, b[2], b[3]);
        }
    }
}
// sum[16 × WIDTH] += x[16 × 64] · a tile; x is packed, two columns a word.
__device__ __forceinline__ void add_product(float (*sum)[4], u32 (*x)[2], u32 tile) {
    #pragma unroll
    for (int k = 0; k < TILE / 16; k++) {
        u32 a[4] = {x[2 * k][0], x[2 * k][1], x[2 * k + 1][0], x[2 * k + 1][1]};
        #pragma unroll
        for (int n = 0; n < WIDTH / 16; n++) {
            u32 b[4];
            right_factor_plain(b, tile, 16 * k, n);
            multiply(sum[2 * n], a, b[0], b[1]);
            multiply(sum[2 * n + 1], a, b[2], b[3]);
        }
    }
}

// 16 rows of a warp, times a factor for each of its two rows of a thread, through their place in a tile that nobody
// else reads any more. With cosines and sines of the tokens, each row is turned back by its token's angles.
__device__ void store_rows(float (*sum)[4], float upper, float lower, unsigned char* memory, u32 tile, int row,
                           bf16* head, int stride, int first, int tokens, const float* cosines, const float* sines) {
    int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    unsigned char* base = memory + (tile - shared_address(memory));
    __syncwarp();
    #pragma unroll
    for (int n = 0; n < WIDTH / 8; n++) {
        *(u32*)(base + place(0, row + g, n) + 4 * t) = pack(sum[n][0] * upper, sum[n][1] * upper);
        *(u32*)(base + place(0, row + g + 8, n) + 4 * t) = pack(sum[n][2] * lower, sum[n][3] * lower);
    }
    __syncwarp();
    const int half = PIECES / 2;
    for (int at = lane; at < 16 * half; at += 32) {
        int line = at / half, piece = at % half, token = first + line;
        if (token >= tokens) continue;
        uint4 left = *(uint4*)(base + place(0, row + line, piece));
        uint4 right = *(uint4*)(base + place(0, row + line, piece + half));
        if (cosines) {
            u32* a = (u32*)&left;
            u32* b = (u32*)&right;
            long long angle = (long long)token * (WIDTH / 2) + 8 * piece;
            #pragma unroll
            for (int n = 0; n < 4; n++) {
                float c0 = cosines[angle + 2 * n], s0 = sines[angle + 2 * n];
                float c1 = cosines[angle + 2 * n + 1], s1 = sines[angle + 2 * n + 1];
                float a0 = low(a[n]), a1 = high(a[n]), b0 = low(b[n]), b1 = high(b[n]);
                a[n] = pack(a0 * c0 + b0 * s0, a1 * c1 + b1 * s1);
                b[n] = pack(b0 * c0 - a0 * s0, b1 * c1 - a1 * s1);
            }
        }
        bf16* to = head + (long long)token * stride + 8 * piece;
        *(uint4*)to = left;
        *(uint4*)(to + WIDTH / 2) = right;
    }
}

// softmax(scale · q·kᵀ)·v and the natural logarithm of each row's sum of exponentials. A block for each head
// (x) and 128 queries (y, the last ones first: they have the most to do); a warp for 16 of them.
extern "C" __global__ void __launch_bounds__(256) flash_forward(
    const bf16* queries, const bf16* keys, const bf16* values, bf16* out, float* normalisers, Strides of_queries,
    Strides of_keys, Strides of_out, int tokens, int query_heads, int group, int window, float scale) {
    extern __shared__ __align__(128) unsigned char memory[];
    int head = blockIdx.x % query_heads, warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    long long sequence = blockIdx.x / query_heads;
    int first = (gridDim.y - 1 - blockIdx.y) * FORWARD_ROWS, own = first + 16 * warp;
    queries += sequence * of_queries.batch + (long long)head * of_queries.head;
    keys += sequence * of_keys.batch + (long long)(head / group) * of_keys.head;
    values += sequence * of_keys.batch + (long long)(head / group) * of_keys.head;
    u32 query_tile = shared_address(memory);
    u32 tiles = query_tile + FORWARD_ROWS * WIDTH * 2;
    const u32 size = TILE * WIDTH * 2;

    int begin = max(0, first - window + 1) / TILE, end = (min(tokens, first + FORWARD_ROWS) + TILE - 1) / TILE;
    fetch<FORWARD_ROWS>(query_tile, queries, of_queries.row, first, tokens);
    fetch<TILE>(tiles, keys, of_keys.row, begin * TILE, tokens);
    fetch<TILE>(tiles + size, values, of_keys.row, begin * TILE, tokens);
    copies_end();

    float sum[WIDTH / 8][4], peak[2] = {-INFINITY, -INFINITY}, total[2] = {0.0f, 0.0f};
    #pragma unroll
    for (int n = 0; n < WIDTH / 8; n++) sum[n][0] = sum[n][1] = sum[n][2] = sum[n][3] = 0.0f;
    float unit = scale * LOG2E;
    for (int tile = begin; tile < end; tile++) {
        u32 key_tile = tiles + ((tile - begin) & 1) * 2 * size, value_tile = key_tile + size;
        if (tile + 1 < end) {
            u32 next = tiles + ((tile + 1 - begin) & 1) * 2 * size;
            fetch<TILE>(next, keys, of_keys.row, (tile + 1) * TILE, tokens);
            fetch<TILE>(next + size, values, of_keys.row, (tile + 1) * TILE, tokens);
            copies_end();
            copies_wait<1>();
        } else {
            copies_wait<0>();
        }
        __syncthreads();
        int start = tile * TILE;
        if (start <= own + 15 && start + TILE - 1 > own - window) {
            float x[TILE / 8][4];
            scores(x, query_tile, 16 * warp, key_tile);
            if (start + TILE - 1 > own || start <= own + 15 - window) {
                #pragma unroll
                for (int n = 0; n < TILE / 8; n++) {
                    #pragma unroll
                    for (int e = 0; e < 4; e++) {
                        int key = start + 8 * n + 2 * t + (e & 1), query = own + g + (e >> 1) * 8;
                        if (key > query || key <= query - window) x[n][e] = -INFINITY;
                    }
                }
            }
            u32 weights[TILE / 8][2];
            #pragma unroll
            for (int half = 0; half < 2; half++) {
                float top = peak[half];
                #pragma unroll
                for (int n = 0; n < TILE / 8; n++) top = fmaxf(top, fmaxf(x[n][2 * half], x[n][2 * half + 1]));
                top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
                top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
                float base = top == -INFINITY ? 0.0f : top * unit;
                float shrink = power_of_2(peak[half] * unit - base), part = 0.0f;
                peak[half] = top;
                #pragma unroll
                for (int n = 0; n < TILE / 8; n++) {
                    float a = power_of_2(x[n][2 * half] * unit - base), b = power_of_2(x[n][2 * half + 1] * unit - base);
                    part += a + b;
                    weights[n][half] = pack(a, b);
                }
                total[half] = total[half] * shrink + part;
                #pragma unroll
                for (int n = 0; n < WIDTH / 8; n++) {
                    sum[n][2 * half] *= shrink;
                    sum[n][2 * half + 1] *= shrink;
                }
            }
            add_product(sum, weights, value_tile);
        }
        __syncthreads();
    }
    float scales[2];
    #pragma unroll
    for (int half = 0; half < 2; half++) {
        float all = total[half] + __shfl_xor_sync(0xffffffffu, total[half], 1);
        all += __shfl_xor_sync(0xffffffffu, all, 2);
        scales[half] = 1.0f / all;
        int query = own + g + 8 * half;
        if (t == 0 && query < tokens)
            normalisers[(long long)blockIdx.x * tokens + query] = peak[half] * scale + __logf(all);
    }
    bf16* to = out + sequence * of_out.batch + (long long)head * of_out.head;
    store_rows(sum, scales[0], scales[1], memory, query_tile, 16 * warp, to, of_out.row, own, tokens, 0, 0);
}

// Σ out · gradient of each row of a head: a warp for each.
extern "C" __global__ void flash_dots(
    const bf16* out, const bf16* gradient, float* dots, Strides of_out, int tokens, int query_heads, long long rows) {
    long long row = (long long)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
    if (row >= rows) return;
    int token = (int)(row % tokens), head = (int)(row / tokens % query_heads), lane = threadIdx.x & 31;
    long long at = row / tokens / query_heads * of_out.batch + (long long)head * of_out.head + (long long)token * of_out.row;
    const u32* left = (const u32*)(out + at);
    const u32* right = (const u32*)(gradient + at);
    float sum = 0.0f;
    for (int n = lane; n < WIDTH / 2; n += 32) sum += low(left[n]) * low(right[n]) + high(left[n]) * high(right[n]);
    sum = warp_sum(sum);
    if (lane == 0) dots[row] = sum;
}

// The gradients by keys and values: a block for each key head (x) and 64 keys (y), a warp for 16 of them. It goes
// through all queries that look at its keys, of all heads of the group.
extern "C" __global__ void __launch_bounds__(128) flash_by_keys(
    const bf16* queries, const bf16* keys, const bf16* values, const bf16* gradient, const float* normalisers,
    const float* dots, bf16* by_keys, bf16* by_values, const float* cosines, const float* sines, Strides of_queries,
    Strides of_keys, Strides of_out, int tokens, int key_heads, int group, int window, float scale) {
    extern __shared__ __align__(128) unsigned char memory[];
    int head = blockIdx.x % key_heads, warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    long long sequence = blockIdx.x / key_heads;
    int first = blockIdx.y * TILE, own = first + 16 * warp;
    const u32 size = TILE * WIDTH * 2;
    u32 key_tile = shared_address(memory), value_tile = key_tile + size, tiles = value_tile + size;
    float* numbers = (float*)(memory + 6 * size);
    long long of_head = sequence * of_keys.batch + (long long)head * of_keys.head;
    fetch<TILE>(key_tile, keys + of_head, of_keys.row, first, tokens);
    fetch<TILE>(value_tile, values + of_head, of_keys.row, first, tokens);

    int begin = first / TILE;
    int end = (int)(min((long long)tokens, (long long)first + TILE - 1 + window) + TILE - 1) / TILE;
    int each = end - begin, steps = each * group;
    // One step's queries, their gradients, normalisers and dots.
    auto prepare = [&](int step) {
        int query_head = head * group + step / each, start = (begin + step % each) * TILE;
        u32 tile = tiles + (step & 1) * 2 * size;
        fetch<TILE>(tile, queries + sequence * of_queries.batch + (long long)query_head * of_queries.head,
                    of_queries.row, start, tokens);
        fetch<TILE>(tile + size, gradient + sequence * of_out.batch + (long long)query_head * of_out.head,
                    of_out.row, start, tokens);
        copies_end();
        long long line = (sequence * key_heads * group + query_head) * tokens;
        float* to = numbers + (step & 1) * 2 * TILE;
        int query = start + (threadIdx.x & (TILE - 1));
        if (threadIdx.x < TILE) to[threadIdx.x] = query < tokens ? normalisers[line + query] * LOG2E : 0.0f;
        else to[threadIdx.x] = query < tokens ? dots[line + query] : 0.0f;
    };
    prepare(0);

    float by_key[WIDTH / 8][4], by_value[WIDTH / 8][4];
    #pragma unroll
    for (int n = 0; n < WIDTH / 8; n++) {
        by_key[n][0] = by_key[n][1] = by_key[n][2] = by_key[n][3] = 0.0f;
        by_value[n][0] = by_value[n][1] = by_value[n][2] = by_value[n][3] = 0.0f;
    }
    float unit = scale * LOG2E;
    for (int step = 0; step < steps; step++) {
        if (step + 1 < steps) {
            prepare(step + 1);
            copies_wait<1>();
        } else {
            copies_wait<0>();
        }
        __syncthreads();
        int start = (begin + step % each) * TILE;
        u32 query_tile = tiles + (step & 1) * 2 * size, gradient_tile = query_tile + size;
        const float* normal = numbers + (step & 1) * 2 * TILE;
        const float* dot = normal + TILE;
        bool whole = start >= own + 15 && start + TILE - 1 - own < window && start + TILE <= tokens;
        float x[TILE / 8][4];
        u32 weights[TILE / 8][2], changes[TILE / 8][2];
        scores(x, key_tile, 16 * warp, query_tile);
        #pragma unroll
        for (int n = 0; n < TILE / 8; n++) {
            #pragma unroll
            for (int e = 0; e < 4; e++) {
                int at = 8 * n + 2 * t + (e & 1), query = start + at, key = own + g + (e >> 1) * 8;
                float weight = power_of_2(x[n][e] * unit - normal[at]);
                if (!whole && (query < key || query - key >= window || query >= tokens)) weight = 0.0f;
                x[n][e] = weight;
            }
            weights[n][0] = pack(x[n][0], x[n][1]);
            weights[n][1] = pack(x[n][2], x[n][3]);
        }
        add_product(by_value, weights, gradient_tile);
        float y[TILE / 8][4];
        scores(y, value_tile, 16 * warp, gradient_tile);
        #pragma unroll
        for (int n = 0; n < TILE / 8; n++) {
            float one = dot[8 * n + 2 * t], other = dot[8 * n + 2 * t + 1];
            changes[n][0] = pack(low(weights[n][0]) * (y[n][0] - one), high(weights[n][0]) * (y[n][1] - other));
            changes[n][1] = pack(low(weights[n][1]) * (y[n][2] - one), high(weights[n][1]) * (y[n][3] - other));
        }
        add_product(by_key, changes, query_tile);
        __syncthreads();
    }
    // A warp's rows of both tiles are read by it alone.
    store_rows(by_key, scale, scale, memory, key_tile, 16 * warp, by_keys + of_head, of_keys.row, own, tokens, cosines, sines);
    store_rows(by_value, 1.0f, 1.0f, memory, value_tile, 16 * warp, by_values + of_head, of_keys.row, own, tokens, 0, 0);
}

// The gradient by queries: a block for each head (x) and 64 queries (y, the last ones first), a warp for 16 of them.
extern "C" __global__ void __launch_bounds__(128) flash_by_queries(
    const bf16* queries, const bf16* keys, const bf16* values, const bf16* gradient, const float* normalisers,
    const float* dots, bf16* by_queries, const float* cosines, const float* sines, Strides of_queries, Strides of_keys,
    Strides of_out, int tokens, int query_heads, int group, int window, float scale) {
    extern __shared__ __align__(128) unsigned char memory[];
    int head = blockIdx.x % query_heads, warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    long long sequence = blockIdx.x / query_heads;
    int first = (gridDim.y - 1 - blockIdx.y) * TILE, own = first + 16 * warp;
    const u32 size = TILE * WIDTH * 2;
    u32 query_tile = shared_address(memory), gradient_tile = query_tile + size, tiles = gradient_tile + size;
    keys += sequence * of_keys.batch + (long long)(head / group) * of_keys.head;
    values += sequence * of_keys.batch + (long long)(head / group) * of_keys.head;
    long long of_head = sequence * of_queries.batch + (long long)head * of_queries.head;

    int begin = max(0, first - window + 1) / TILE, end = (min(tokens, first + TILE) + TILE - 1) / TILE;
    fetch<TILE>(query_tile, queries + of_head, of_queries.row, first, tokens);
    fetch<TILE>(gradient_tile, gradient + sequence * of_out.batch + (long long)head * of_out.head, of_out.row, first, tokens);
    fetch<TILE>(tiles, keys, of_keys.row, begin * TILE, tokens);
    fetch<TILE>(tiles + size, values, of_keys.row, begin * TILE, tokens);
    copies_end();
    float normal[2], dot[2];
    #pragma unroll
    for (int half = 0; half < 2; half++) {
        int query = own + g + 8 * half;
        bool real = query < tokens;
        normal[half] = real ? normalisers[(long long)blockIdx.x * tokens + query] * LOG2E : 0.0f;
        dot[half] = real ? dots[(long long)blockIdx.x * tokens + query] : 0.0f;
    }
    float sum[WIDTH / 8][4];
    #pragma unroll
    for (int n = 0; n < WIDTH / 8; n++) sum[n][0] = sum[n][1] = sum[n][2] = sum[n][3] = 0.0f;
    float unit = scale * LOG2E;
    for (int tile = begin; tile < end; tile++) {
        u32 key_tile = tiles + ((tile - begin) & 1) * 2 * size, value_tile = key_tile + size;
        if (tile + 1 < end) {
            u32 next = tiles + ((tile + 1 - begin) & 1) * 2 * size;
            fetch<TILE>(next, keys, of_keys.row, (tile + 1) * TILE, tokens);
            fetch<TILE>(next + size, values, of_keys.row, (tile + 1) * TILE, tokens);
            copies_end();
            copies_wait<1>();
        } else {
            copies_wait<0>();
        }
        __syncthreads();
        int start = tile * TILE;
        if (start <= own + 15 && start + TILE - 1 > own - window) {
            bool whole = start + TILE - 1 <= own && start > own + 15 - window;
            float x[TILE / 8][4], y[TILE / 8][4];
            u32 changes[TILE / 8][2];
            scores(x, query_tile, 16 * warp, key_tile);
            scores(y, gradient_tile, 16 * warp, value_tile);
            #pragma unroll
            for (int n = 0; n < TILE / 8; n++) {
                #pragma unroll
                for (int e = 0; e < 4; e++) {
                    int half = e >> 1, key = start + 8 * n + 2 * t + (e & 1), query = own + g + 8 * half;
                    float weight = power_of_2(x[n][e] * unit - normal[half]);
                    if (!whole && (key > query || key <= query - window)) weight = 0.0f;
                    x[n][e] = weight * (y[n][e] - dot[half]);
                }
                changes[n][0] = pack(x[n][0], x[n][1]);
                changes[n][1] = pack(x[n][2], x[n][3]);
            }
            add_product(sum, changes, key_tile);
        }
        __syncthreads();
    }
    store_rows(sum, scale, scale, memory, query_tile, 16 * warp, by_queries + of_head, of_queries.row, own, tokens, cosines, sines);
}

#endif
