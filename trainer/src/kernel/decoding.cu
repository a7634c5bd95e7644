// Attention of one token of each sequence to what its slot holds, by the tensor cores.
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
