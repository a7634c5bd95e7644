// One token of each sequence, and the cache of keys and values that it looks at.

// Queries and keys of one token a row: bias (if any), norm of each head (if any), rotation to their
// position; keys and values go into the cache, queries stay in place. A block for each row, a
// warp for each head in turn. Rows with slot < 0 are padding.
extern "C" __global__ void rotate_and_store(
    bf16* qkv, const bf16* bias, const bf16* query_norm, const bf16* key_norm, float epsilon,
    const float* cosines, const float* sines, const int* positions, const int* slots,
    bf16* const* key_caches, bf16* const* value_caches, int layer, const int* capacity_at,
    int query_heads, int key_heads, int width) {
    int row = blockIdx.x, slot = slots[row], position = positions[row], capacity = *capacity_at;
    if (slot < 0) return;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    int heads = query_heads + 2 * key_heads, half = width >> 1;
    bf16* keys = key_caches[layer];
    bf16* values = value_caches[layer];
    for (int head = warp; head < heads; head += warps) {
        long long start = ((long long)row * heads + head) * width;
        bool is_value = head >= query_heads + key_heads;
        const bf16* norm = is_value ? 0 : head < query_heads ? query_norm : key_norm;
        float first[4], second[4], squares = 0.0f;
        for (int n = 0; n < 4; n++) {
            int at = lane + 32 * n;
            first[n] = second[n] = 0.0f;
            if (at < half) {
                first[n] = wide(qkv[start + at]);
                second[n] = wide(qkv[start + half + at]);
                if (bias) {
                    first[n] = wide(narrow(first[n] + wide(bias[head * width + at])));
                    second[n] = wide(narrow(second[n] + wide(bias[head * width + half + at])));
                }
                squares += first[n] * first[n] + second[n] * second[n];
            }
        }
        float scale = norm ? rsqrtf(warp_sum(squares) / width + epsilon) : 1.0f;
        for (int n = 0; n < 4; n++) {
            int at = lane + 32 * n;
            if (at >= half) continue;
            float a = first[n], b = second[n];
            if (norm) {
                a = wide(narrow(wide(narrow(a * scale)) * wide(norm[at])));
                b = wide(narrow(wide(narrow(b * scale)) * wide(norm[half + at])));
            }
            if (is_value) {
                long long to = (((long long)slot * key_heads + head - query_heads - key_heads) * capacity + position) * width;
                values[to + at] = narrow(a);
                values[to + half + at] = narrow(b);
                continue;
            }
            float cosine = cosines[(long long)position * half + at], sine = sines[(long long)position * half + at];
            bf16 turned = narrow(a * cosine - b * sine), other = narrow(b * cosine + a * sine);
            if (head < query_heads) {
                qkv[start + at] = turned;
                qkv[start + half + at] = other;
            } else {
                long long to = (((long long)slot * key_heads + head - query_heads) * capacity + position) * width;
                keys[to + at] = turned;
                keys[to + half + at] = other;
            }
        }
    }
}

// The shape of heads is known when the module is compiled, so that loops over it need no test.
#ifndef HEAD_WIDTH
#define HEAD_WIDTH 64
#endif
#ifndef QUERY_GROUP
#define QUERY_GROUP 1
#endif
#define CHUNK 512
#define THREADS 256

// Attention of one token a row to what its slot holds: a block for each key head and row, online
// softmax over chunks of positions. QUERY_GROUP queries share a key head; HEAD_WIDTH is even, at most 256.
extern "C" __global__ void __launch_bounds__(THREADS) decode_attention(
    const bf16* qkv, bf16* out, const int* positions, const int* slots,
    bf16* const* key_caches, bf16* const* value_caches, int layer, const int* capacity_at,
    int query_heads, int key_heads, float scale) {
    int head = blockIdx.x, row = blockIdx.y, slot = slots[row], capacity = *capacity_at;
    if (slot < 0) return;
    int length = positions[row] + 1, thread = threadIdx.x, lane = thread & 31, warp = thread >> 5;
    __shared__ float queries[HEAD_WIDTH][QUERY_GROUP];
    __shared__ float weights[CHUNK][QUERY_GROUP];
    __shared__ float peaks[QUERY_GROUP], sums[QUERY_GROUP], shrink[QUERY_GROUP];
    long long stride = (long long)(query_heads + 2 * key_heads) * HEAD_WIDTH;
    const bf16* own = qkv + row * stride + (long long)head * QUERY_GROUP * HEAD_WIDTH;
    for (int at = thread; at < QUERY_GROUP * HEAD_WIDTH; at += THREADS)
        queries[at % HEAD_WIDTH][at / HEAD_WIDTH] = scale * wide(own[at]);
    if (thread < QUERY_GROUP) { peaks[thread] = -INFINITY; sums[thread] = 0.0f; }
    long long place_of_slot = ((long long)slot * key_heads + head) * capacity * HEAD_WIDTH;
    const bf16* keys = key_caches[layer] + place_of_slot;
    const bf16* values = value_caches[layer] + place_of_slot;
    // Values: so many threads share a position, each with two components.
    const int half = HEAD_WIDTH / 2, places = THREADS / half;
    int place = thread / half, component = thread % half;
    float left[QUERY_GROUP], right[QUERY_GROUP];
    #pragma unroll
    for (int q = 0; q < QUERY_GROUP; q++) left[q] = right[q] = 0.0f;
    __syncthreads();

    for (int start = 0; start < length; start += CHUNK) {
        int count = min(CHUNK, length - start), at = start + 2 * thread;
        float a[QUERY_GROUP], b[QUERY_GROUP];
        #pragma unroll
        for (int q = 0; q < QUERY_GROUP; q++) a[q] = b[q] = 0.0f;
        if (at < length) {
            // The second position may lie after the last one, within the slot.
            const u32* line = (const u32*)(keys + (long long)at * HEAD_WIDTH);
            #pragma unroll 8
            for (int d = 0; d < HEAD_WIDTH / 2; d++) {
                u32 one = line[d], other = line[HEAD_WIDTH / 2 + d];
                #pragma unroll
                for (int q = 0; q < QUERY_GROUP; q++) {
                    a[q] += queries[2 * d][q] * low(one) + queries[2 * d + 1][q] * high(one);
                    b[q] += queries[2 * d][q] * low(other) + queries[2 * d + 1][q] * high(other);
                }
            }
        }
        #pragma unroll
        for (int q = 0; q < QUERY_GROUP; q++) {
            weights[2 * thread][q] = at < length ? a[q] : -INFINITY;
            weights[2 * thread + 1][q] = at + 1 < length ? b[q] : -INFINITY;
        }
        __syncthreads();
        for (int q = warp; q < QUERY_GROUP; q += THREADS / 32) {
            float peak = -INFINITY;
            for (int n = lane; n < count; n += 32) peak = fmaxf(peak, weights[n][q]);
            peak = fmaxf(warp_max(peak), peaks[q]);
            float sum = 0.0f;
            for (int n = lane; n < count; n += 32) {
                float weight = __expf(weights[n][q] - peak);
                weights[n][q] = weight;
                sum += weight;
            }
            sum = warp_sum(sum);
            if (lane == 0) {
                shrink[q] = __expf(peaks[q] - peak);
                sums[q] = sums[q] * shrink[q] + sum;
                peaks[q] = peak;
            }
        }
        __syncthreads();
        #pragma unroll
        for (int q = 0; q < QUERY_GROUP; q++) {
            left[q] *= shrink[q];
            right[q] *= shrink[q];
        }
        if (place < places) {
            const u32* line = (const u32*)(values + (long long)start * HEAD_WIDTH) + component;
            #pragma unroll 8
            for (int n = place; n < count; n += places) {
                u32 both = line[n * half];
                float x = low(both), y = high(both);
                #pragma unroll
                for (int q = 0; q < QUERY_GROUP; q++) {
                    left[q] += weights[n][q] * x;
                    right[q] += weights[n][q] * y;
                }
            }
        }
        __syncthreads();
    }
    // The places' parts are added one query at a time, in a memory of their own.
    __shared__ float parts[(THREADS / half) * HEAD_WIDTH];
    #pragma unroll
    for (int q = 0; q < QUERY_GROUP; q++) {
        if (place < places) {
            parts[place * HEAD_WIDTH + 2 * component] = left[q];
            parts[place * HEAD_WIDTH + 2 * component + 1] = right[q];
        }
        __syncthreads();
        for (int d = thread; d < HEAD_WIDTH; d += THREADS) {
            float sum = 0.0f;
            for (int n = 0; n < places; n++) sum += parts[n * HEAD_WIDTH + d];
            out[((long long)row * query_heads + head * QUERY_GROUP + q) * HEAD_WIDTH + d] = narrow(sum / sums[q]);
        }
        __syncthreads();
    }
}

// Keys and values of new tokens, [rows, tokens, heads, width], into the cache of one layer: a block for
// each token. Row r goes to slot slots[r] from position starts[r] on.
extern "C" __global__ void store_tokens(
    const bf16* keys, const bf16* values, bf16* key_cache, bf16* value_cache, const int* slots, const int* starts,
    int tokens, int heads, int width, int capacity) {
    int row = blockIdx.x / tokens, token = blockIdx.x % tokens;
    int slot = slots[row], position = starts[row] + token;
    if (position >= capacity) return;
    long long from = (long long)blockIdx.x * heads * width;
    for (int at = threadIdx.x; at < heads * width; at += blockDim.x) {
        int head = at / width, component = at % width;
        long long to = (((long long)slot * heads + head) * capacity + position) * width + component;
        key_cache[to] = keys[from + at];
        value_cache[to] = values[from + at];
    }
}

// The first tokens of one slot to another: a block for each head and token.
extern "C" __global__ void copy_slot(
    bf16* keys, bf16* values, int source, int target, int tokens, int heads, int width, int capacity) {
    int head = blockIdx.x / tokens, token = blockIdx.x % tokens;
    long long from = (((long long)source * heads + head) * capacity + token) * width;
    long long to = (((long long)target * heads + head) * capacity + token) * width;
    for (int at = threadIdx.x; at < width; at += blockDim.x) {
        keys[to + at] = keys[from + at];
        values[to + at] = values[from + at];
    }
}

// Lines of so many values, at other distances in the copy: a block for each line.
extern "C" __global__ void copy_lines(const bf16* from, bf16* to, long long from_step, long long to_step, int count) {
    const bf16* source = from + blockIdx.x * from_step;
    bf16* target = to + blockIdx.x * to_step;
    for (int at = threadIdx.x; at < count; at += blockDim.x) target[at] = source[at];
}

// The same by the tensor cores.
//
// Heads of 64 or 128 values, of which at most 8 share a key head; `decode_attention` takes the others.
#if HEAD_WIDTH == 64 || HEAD_WIDTH == 128

// Positions of a tile, of which each of the four warps takes 16.
#define SPAN_OF_TILE 64
#define HEAD_PIECES (HEAD_WIDTH / 8)

// A block for each key head and row. The queries of the group are the first rows of a left factor of 16 rows. Each
// warp keeps the largest score, the sum and the weighted values of its own positions; they are put together at the end.
extern "C" __global__ void __launch_bounds__(128) decode_tiles(
    const bf16* qkv, bf16* out, const int* positions, const int* slots,
    bf16* const* key_caches, bf16* const* value_caches, int layer, const int* capacity_at,
    int query_heads, int key_heads, float scale) {
    extern __shared__ __align__(128) unsigned char memory[];
    int head = blockIdx.x, row = blockIdx.y, slot = slots[row], capacity = *capacity_at;
    if (slot < 0) return;
    int length = positions[row] + 1, lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
    const bf16* own = qkv + ((long long)row * (query_heads + 2 * key_heads) + (long long)head * QUERY_GROUP) * HEAD_WIDTH;
    long long place_of_slot = ((long long)slot * key_heads + head) * capacity * HEAD_WIDTH;
    const bf16* keys = key_caches[layer] + place_of_slot;
    const bf16* values = value_caches[layer] + place_of_slot;
    const u32 size = SPAN_OF_TILE * HEAD_WIDTH * 2;
    u32 base = shared_address(memory);

    // Tiles are 64 rows of HEAD_WIDTH; a piece of eight rows lies in different banks.
    auto prepare = [&](int tile) {
        u32 to = base + (tile & 1) * 2 * size;
        int start = tile * SPAN_OF_TILE;
        #pragma unroll
        for (int at = threadIdx.x; at < SPAN_OF_TILE * HEAD_PIECES; at += 128) {
            int line = at / HEAD_PIECES, piece = at % HEAD_PIECES;
            bool real = start + line < length;
            long long from = real ? (long long)(start + line) * HEAD_WIDTH + 8 * piece : 0;
            u32 place = to + (u32)((line * HEAD_PIECES + (piece ^ (line & 7))) * 16);
            copy_16(place, keys + from, real);
            copy_16(place + size, values + from, real);
        }
        copies_end();
    };
    prepare(0);
    // Rows 8 to 15 of the left factor are empty.
    u32 queries[HEAD_WIDTH / 16][4];
    #pragma unroll
    for (int k = 0; k < HEAD_WIDTH / 16; k++) {
        const u32* line = (const u32*)(own + (long long)min(g, QUERY_GROUP - 1) * HEAD_WIDTH + 16 * k) + t;
        queries[k][0] = g < QUERY_GROUP ? line[0] : 0;
        queries[k][1] = 0;
        queries[k][2] = g < QUERY_GROUP ? line[4] : 0;
        queries[k][3] = 0;
    }
    float sum[HEAD_WIDTH / 8][4], peak = -INFINITY, total = 0.0f, unit = scale * 1.4426950408889634f;
    #pragma unroll
    for (int n = 0; n < HEAD_WIDTH / 8; n++) sum[n][0] = sum[n][1] = sum[n][2] = sum[n][3] = 0.0f;
    int tiles = (length + SPAN_OF_TILE - 1) / SPAN_OF_TILE, matrix = lane >> 3;
    for (int tile = 0; tile < tiles; tile++) {
        if (tile + 1 < tiles) {
            prepare(tile + 1);
            copies_wait<1>();
        } else {
            copies_wait<0>();
        }
        __syncthreads();
        u32 key_tile = base + (tile & 1) * 2 * size, value_tile = key_tile + size;
        int first = tile * SPAN_OF_TILE + 16 * warp;
        if (first < length) {
            float x[2][4] = {{0.0f, 0.0f, 0.0f, 0.0f}, {0.0f, 0.0f, 0.0f, 0.0f}};
            #pragma unroll
            for (int k = 0; k < HEAD_WIDTH / 16; k++) {
                u32 b[4];
                int line = 16 * warp + (lane & 7) + (matrix >> 1) * 8, piece = 2 * k + (matrix & 1);
                load_4(b, key_tile + (u32)((line * HEAD_PIECES + (piece ^ (line & 7))) * 16));
                multiply(x[0], queries[k], b[0], b[1]);
                multiply(x[1], queries[k], b[2], b[3]);
            }
            float top = peak;
            #pragma unroll
            for (int n = 0; n < 2; n++) {
                #pragma unroll
                for (int e = 0; e < 2; e++) {
                    if (first + 8 * n + 2 * t + e >= length) x[n][e] = -INFINITY;
                    top = fmaxf(top, x[n][e]);
                }
            }
            top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
            top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
            float shrink = power_of_2((peak - top) * unit);
            peak = top;
            u32 weights[4] = {0, 0, 0, 0};
            float part = 0.0f;
            #pragma unroll
            for (int n = 0; n < 2; n++) {
                float a = power_of_2((x[n][0] - top) * unit), b = power_of_2((x[n][1] - top) * unit);
                part += a + b;
                weights[2 * n] = pack(a, b);
            }
            total = total * shrink + part;
            #pragma unroll
            for (int n = 0; n < HEAD_WIDTH / 8; n++) {
                sum[n][0] *= shrink;
                sum[n][1] *= shrink;
            }
            #pragma unroll
            for (int n = 0; n < HEAD_WIDTH / 16; n++) {
                u32 b[4];
                int line = 16 * warp + (lane & 7) + (matrix & 1) * 8, piece = 2 * n + (matrix >> 1);
                load_4_transposed(b, value_tile + (u32)((line * HEAD_PIECES + (piece ^ (line & 7))) * 16));
                multiply(sum[2 * n], weights, b[0], b[1]);
                multiply(sum[2 * n + 1], weights, b[2], b[3]);
            }
        }
        __syncthreads();
    }
    total += __shfl_xor_sync(0xffffffffu, total, 1);
    total += __shfl_xor_sync(0xffffffffu, total, 2);
    // Of each warp: the peaks and sums of eight queries, then their weighted values.
    float* parts = (float*)memory;
    float* mine = parts + warp * (16 + 8 * HEAD_WIDTH);
    if (t == 0) {
        mine[g] = peak;
        mine[8 + g] = total;
    }
    #pragma unroll
    for (int n = 0; n < HEAD_WIDTH / 8; n++) {
        mine[16 + g * HEAD_WIDTH + 8 * n + 2 * t] = sum[n][0];
        mine[16 + g * HEAD_WIDTH + 8 * n + 2 * t + 1] = sum[n][1];
    }
    __syncthreads();
    for (int at = threadIdx.x; at < QUERY_GROUP * HEAD_WIDTH; at += 128) {
        int query = at / HEAD_WIDTH;
        float top = -INFINITY, all = 0.0f, value = 0.0f;
        for (int n = 0; n < 4; n++) top = fmaxf(top, parts[n * (16 + 8 * HEAD_WIDTH) + query]);
        for (int n = 0; n < 4; n++) {
            const float* part = parts + n * (16 + 8 * HEAD_WIDTH);
            float share = power_of_2((part[query] - top) * unit);
            all += share * part[8 + query];
            value += share * part[16 + at];
        }
        out[((long long)row * query_heads + head * QUERY_GROUP) * HEAD_WIDTH + at] = narrow(value / all);
    }
}

#endif
