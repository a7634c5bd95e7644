// What the trainer computes on an NVIDIA GPU itself, beside matrix products (cuBLAS) and Burn.
//
// Compiled by NVRTC when a device is first used; no header is needed. Every kernel has a
// reference on the CPU that `tandem doctor` and the tests compare it with. All data is bf16
// (kept as its 16 bits), all sums are f32.

typedef unsigned short bf16;
typedef unsigned int u32;

#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif

__device__ __forceinline__ float wide(bf16 x) { return __uint_as_float(((u32)x) << 16); }
__device__ __forceinline__ float low(u32 pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high(u32 pair) { return __uint_as_float(pair & 0xffff0000u); }

// To the nearest, ties to even; NaN stays NaN.
__device__ __forceinline__ bf16 narrow(float x) {
    u32 bits = __float_as_uint(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
    return (bf16)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
__device__ __forceinline__ u32 pair(float first, float second) {
    return (u32)narrow(first) | ((u32)narrow(second) << 16);
}

// --- instructions
__device__ __forceinline__ u32 shared_address(const void* at) { return (u32)__cvta_generic_to_shared(at); }
// Four 8×8 matrices for the tensor cores; each thread names a row of one of them.
__device__ __forceinline__ void load_4(u32* out, u32 at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3]) : "r"(at) : "memory");
}
__device__ __forceinline__ void load_4_transposed(u32* out, u32 at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3]) : "r"(at) : "memory");
}
// c += a · b: 16×16 times 16×8.
__device__ __forceinline__ void multiply(float* c, const u32* a, u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// 16 bytes on their way to shared memory; zeros if not `real`.
__device__ __forceinline__ void copy_16(u32 to, const void* from, bool real) {
    int bytes = real ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void copies_end() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// All groups of copies but the newest `left` have arrived.
template <int left> __device__ __forceinline__ void copies_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
}
__device__ __forceinline__ u32 pack(float first, float second) {
    u32 out;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(second), "f"(first));
    return out;
}
__device__ __forceinline__ float power_of_2(float x) {
    float out;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
    return out;
}
// --- end of instructions

__device__ __forceinline__ float warp_sum(float x) {
    for (int step = 16; step > 0; step >>= 1) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}
__device__ __forceinline__ float warp_max(float x) {
    for (int step = 16; step > 0; step >>= 1) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
    return x;
}
// Of a whole block of at most 1,024 threads; `shared` holds 33 floats.
__device__ float block_sum(float x, float* shared) {
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = (blockDim.x + 31) >> 5;
    x = warp_sum(x);
    if (lane == 0) shared[warp] = x;
    __syncthreads();
    if (warp == 0) {
        x = warp_sum(lane < warps ? shared[lane] : 0.0f);
        if (lane == 0) shared[32] = x;
    }
    __syncthreads();
    x = shared[32];
    __syncthreads();
    return x;
}

// Softmax of attention scores in place: a warp for each row of `tokens` (even) scores. Row r belongs
// to token r % tokens, which looks at itself and the window - 1 tokens before it; the rest becomes 0.
extern "C" __global__ void causal_softmax(u32* scores, long long rows, int tokens, int window) {
    long long row = (long long)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
    if (row >= rows) return;
    int lane = threadIdx.x & 31, half = tokens >> 1;
    int last = (int)(row % tokens), first = max(0, last - window + 1);
    u32* line = scores + row * half;
    float top = -INFINITY, sum = 0.0f;
    for (int at = (first >> 1) + lane; at <= (last >> 1); at += 32) {
        u32 both = line[at];
        float a = 2 * at >= first ? low(both) : -INFINITY;
        float b = 2 * at + 1 <= last ? high(both) : -INFINITY;
        float peak = fmaxf(a, b);
        if (peak > top) { sum *= __expf(top - peak); top = peak; }
        if (peak > -INFINITY) sum += __expf(a - top) + __expf(b - top);
    }
    float peak = warp_max(top);
    sum = warp_sum(top > -INFINITY ? sum * __expf(top - peak) : 0.0f);
    float scale = 1.0f / sum;
    for (int at = lane; at < half; at += 32) {
        u32 out = 0;
        if (2 * at + 1 >= first && 2 * at <= last) {
            u32 both = line[at];
            float a = 2 * at >= first ? __expf(low(both) - peak) * scale : 0.0f;
            float b = 2 * at + 1 <= last ? __expf(high(both) - peak) * scale : 0.0f;
            out = pair(a, b);
        }
        line[at] = out;
    }
}

// From attention weights p and the gradient by them, the gradient by the scores, in place of the latter:
// p · (dp − Σ p · dp). Rows as above.
extern "C" __global__ void causal_softmax_backward(const u32* weights, u32* gradient, long long rows, int tokens, int window) {
    long long row = (long long)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
    if (row >= rows) return;
    int lane = threadIdx.x & 31, half = tokens >> 1;
    int last = (int)(row % tokens), first = max(0, last - window + 1);
    const u32* p = weights + row * half;
    u32* d = gradient + row * half;
    float sum = 0.0f;
    for (int at = (first >> 1) + lane; at <= (last >> 1); at += 32) {
        u32 left = p[at], right = d[at];
        sum += low(left) * low(right) + high(left) * high(right);
    }
    sum = warp_sum(sum);
    for (int at = lane; at < half; at += 32) {
        u32 out = 0;
        if (2 * at + 1 >= first && 2 * at <= last) {
            u32 left = p[at], right = d[at];
            out = pair(low(left) * (low(right) - sum), high(left) * (high(right) - sum));
        }
        d[at] = out;
    }
}

// The rows of the embedding table for the given ids: a block for each row.
extern "C" __global__ void embed(const bf16* table, const int* ids, bf16* x, int width) {
    const bf16* from = table + (long long)ids[blockIdx.x] * width;
    for (int at = threadIdx.x; at < width; at += blockDim.x) x[(long long)blockIdx.x * width + at] = from[at];
}

// Eight values of 16 bytes, and back.
__device__ __forceinline__ void spread(float* to, uint4 from) {
    to[0] = low(from.x); to[1] = high(from.x); to[2] = low(from.y); to[3] = high(from.y);
    to[4] = low(from.z); to[5] = high(from.z); to[6] = low(from.w); to[7] = high(from.w);
}
__device__ __forceinline__ uint4 gathered(const float* from) {
    uint4 to;
    to.x = pair(from[0], from[1]); to.y = pair(from[2], from[3]);
    to.z = pair(from[4], from[5]); to.w = pair(from[6], from[7]);
    return to;
}

// x += y (if there is a y), then h = x / sqrt(mean(x²) + epsilon) · weight: a block for each row. Rows whose width is a
// multiple of 8 and at most 32 for each thread are kept in registers meanwhile.
#define HELD 4
extern "C" __global__ void add_rms_norm(bf16* x, const bf16* y, const bf16* weight, bf16* h, int width, float epsilon) {
    __shared__ float shared[33];
    long long start = (long long)blockIdx.x * width;
    float squares = 0.0f;
    int pieces = width >> 3;
    if ((width & 7) == 0 && pieces <= HELD * blockDim.x) {
        float held[HELD][8];
        #pragma unroll
        for (int n = 0; n < HELD; n++) {
            int at = threadIdx.x + n * blockDim.x;
            if (at >= pieces) continue;
            uint4* place = (uint4*)(x + start) + at;
            spread(held[n], *place);
            if (y) {
                float other[8];
                spread(other, ((const uint4*)(y + start))[at]);
                #pragma unroll
                for (int k = 0; k < 8; k++) held[n][k] = wide(narrow(held[n][k] + other[k]));
                *place = gathered(held[n]);
            }
            #pragma unroll
            for (int k = 0; k < 8; k++) squares += held[n][k] * held[n][k];
        }
        float scale = rsqrtf(block_sum(squares, shared) / width + epsilon);
        #pragma unroll
        for (int n = 0; n < HELD; n++) {
            int at = threadIdx.x + n * blockDim.x;
            if (at >= pieces) continue;
            float factor[8];
            spread(factor, ((const uint4*)weight)[at]);
            #pragma unroll
            for (int k = 0; k < 8; k++) factor[k] *= wide(narrow(held[n][k] * scale));
            ((uint4*)(h + start))[at] = gathered(factor);
        }
        return;
    }
    for (int at = threadIdx.x; at < width; at += blockDim.x) {
        float value = wide(x[start + at]);
        if (y) {
            bf16 sum = narrow(value + wide(y[start + at]));
            x[start + at] = sum;
            value = wide(sum);
        }
        squares += value * value;
    }
    float scale = rsqrtf(block_sum(squares, shared) / width + epsilon);
    for (int at = threadIdx.x; at < width; at += blockDim.x) {
        float normal = wide(narrow(wide(x[start + at]) * scale));
        h[start + at] = narrow(normal * wide(weight[at]));
    }
}

// silu(gate) · up, from rows of gate and up side by side. `width` is that of one of them. A thread for each eight
// values, or for each one where the width is no multiple of 8.
__device__ __forceinline__ float opened(float gate, float up) {
    return wide(narrow(gate / (1.0f + __expf(-gate)))) * up;
}
extern "C" __global__ void swiglu(const bf16* both, bf16* out, long long rows, int width) {
    long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if ((width & 7) == 0) {
        u32 pieces = width >> 3;
        if (at >= rows * pieces) return;
        u32 row = (u32)at / pieces, piece = (u32)at - row * pieces;
        const uint4* from = (const uint4*)(both + (long long)row * 2 * width) + piece;
        float gate[8], up[8];
        spread(gate, from[0]);
        spread(up, from[pieces]);
        #pragma unroll
        for (int k = 0; k < 8; k++) gate[k] = opened(gate[k], up[k]);
        ((uint4*)out)[at] = gathered(gate);
        return;
    }
    if (at >= rows * width) return;
    long long row = at / width;
    int column = (int)(at - row * width);
    out[at] = narrow(opened(wide(both[row * 2 * width + column]), wide(both[row * 2 * width + width + column])));
}

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

// Of add_rms_norm without y: the gradient by x, and parts of the one by the weight, one row of
// `parts` for each block, which takes every gridDim.x-th row. Where the width is a multiple of 8 and at most 8 for each
// thread, a thread keeps its columns' part in registers.
extern "C" __global__ void rms_norm_backward(
    const bf16* x, const bf16* weight, const bf16* gradient, bf16* by_x, float* parts, int rows, int width, float epsilon) {
    __shared__ float shared[33];
    float* own = parts + (long long)blockIdx.x * width;
    if ((width & 7) == 0 && (width >> 3) <= blockDim.x) {
        __shared__ float2 of_warps[32];
        int at = threadIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = (blockDim.x + 31) >> 5;
        bool real = at < width >> 3;
        float factor[8], part[8];
        #pragma unroll
        for (int k = 0; k < 8; k++) factor[k] = part[k] = 0.0f;
        if (real) spread(factor, ((const uint4*)weight)[at]);
        for (int row = blockIdx.x; row < rows; row += gridDim.x) {
            long long piece = ((long long)row * width >> 3) + at;
            float value[8], above[8], squares = 0.0f, dot = 0.0f;
            if (real) {
                spread(value, ((const uint4*)x)[piece]);
                spread(above, ((const uint4*)gradient)[piece]);
                #pragma unroll
                for (int k = 0; k < 8; k++) {
                    squares += value[k] * value[k];
                    dot += value[k] * factor[k] * above[k];
                }
            }
            squares = warp_sum(squares);
            dot = warp_sum(dot);
            if (lane == 0) { of_warps[warp].x = squares; of_warps[warp].y = dot; }
            __syncthreads();
            squares = dot = 0.0f;
            for (int n = 0; n < warps; n++) { squares += of_warps[n].x; dot += of_warps[n].y; }
            __syncthreads();
            float scale = rsqrtf(squares / width + epsilon), mean = dot * scale * scale * scale / width;
            if (real) {
                #pragma unroll
                for (int k = 0; k < 8; k++) {
                    part[k] += above[k] * value[k] * scale;
                    value[k] = above[k] * factor[k] * scale - value[k] * mean;
                }
                ((uint4*)by_x)[piece] = gathered(value);
            }
        }
        if (real) {
            #pragma unroll
            for (int k = 0; k < 8; k++) own[8 * at + k] = part[k];
        }
        return;
    }
    for (int row = blockIdx.x; row < rows; row += gridDim.x) {
        long long start = (long long)row * width;
        float squares = 0.0f, dot = 0.0f;
        for (int at = threadIdx.x; at < width; at += blockDim.x) {
            float value = wide(x[start + at]);
            squares += value * value;
            dot += value * wide(weight[at]) * wide(gradient[start + at]);
        }
        float scale = rsqrtf(block_sum(squares, shared) / width + epsilon);
        float mean = block_sum(dot, shared) * scale * scale * scale / width;
        for (int at = threadIdx.x; at < width; at += blockDim.x) {
            float value = wide(x[start + at]), above = wide(gradient[start + at]);
            by_x[start + at] = narrow(above * wide(weight[at]) * scale - value * mean);
            float part = above * value * scale;
            own[at] = row == blockIdx.x ? part : own[at] + part;
        }
    }
}

// The sum of rows: a block of 256 threads for 32 columns, of which each warp takes every eighth row.
extern "C" __global__ void __launch_bounds__(256) sum_rows(const float* parts, bf16* out, int rows, int width) {
    __shared__ float sums[8][32];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, column = blockIdx.x * 32 + lane;
    float sum = 0.0f;
    if (column < width) {
        #pragma unroll 8
        for (int row = warp; row < rows; row += 8) sum += parts[(long long)row * width + column];
    }
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || column >= width) return;
    for (int n = 1; n < 8; n++) sum += sums[n][lane];
    out[column] = narrow(sum);
}

// Of swiglu: the gradient by gate and up, side by side. Threads as there.
__device__ __forceinline__ void opened_backward(float above, float& gate, float& up) {
    float share = 1.0f / (1.0f + __expf(-gate)), by_gate = above * up * share * (1.0f + gate * (1.0f - share));
    up = above * gate * share;
    gate = by_gate;
}
extern "C" __global__ void swiglu_backward(const bf16* both, const bf16* gradient, bf16* out, long long rows, int width) {
    long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if ((width & 7) == 0) {
        u32 pieces = width >> 3;
        if (at >= rows * pieces) return;
        u32 row = (u32)at / pieces, piece = (u32)at - row * pieces;
        long long start = (long long)row * 2 * pieces + piece;
        float gate[8], up[8], above[8];
        spread(gate, ((const uint4*)both)[start]);
        spread(up, ((const uint4*)both)[start + pieces]);
        spread(above, ((const uint4*)gradient)[at]);
        #pragma unroll
        for (int k = 0; k < 8; k++) opened_backward(above[k], gate[k], up[k]);
        ((uint4*)out)[start] = gathered(gate);
        ((uint4*)out)[start + pieces] = gathered(up);
        return;
    }
    if (at >= rows * width) return;
    long long row = at / width, start = row * 2 * width + (at - row * width);
    float gate = wide(both[start]), up = wide(both[start + width]);
    opened_backward(wide(gradient[at]), gate, up);
    out[start] = narrow(gate);
    out[start + width] = narrow(up);
}

// From rows of queries, keys and values side by side, one a token, to rotated queries
// [batch, query heads, tokens, width], rotated keys and values [batch, key heads, tokens, width]; or, with
// `back`, the gradients the other way. A block for each token.
extern "C" __global__ void split_heads(
    bf16* all, const float* cosines, const float* sines, bf16* queries, bf16* keys, bf16* values,
    int tokens, int query_heads, int key_heads, int width, int back) {
    int token = blockIdx.x % tokens, half = width >> 1, heads = query_heads + 2 * key_heads;
    long long sequence = blockIdx.x / tokens, start = (long long)blockIdx.x * heads * width;
    for (int n = threadIdx.x; n < heads * half; n += blockDim.x) {
        int head = n / half, at = n % half;
        bf16* place;
        bool turns = true;
        if (head < query_heads) {
            place = queries + ((sequence * query_heads + head) * tokens + token) * width;
        } else if (head < query_heads + key_heads) {
            place = keys + ((sequence * key_heads + head - query_heads) * tokens + token) * width;
        } else {
            place = values + ((sequence * key_heads + head - query_heads - key_heads) * tokens + token) * width;
            turns = false;
        }
        bf16* own = all + start + (long long)head * width;
        float cosine = turns ? cosines[token * half + at] : 1.0f, sine = turns ? sines[token * half + at] : 0.0f;
        if (back) {
            float a = wide(place[at]), b = wide(place[half + at]);
            own[at] = narrow(a * cosine + b * sine);
            own[half + at] = narrow(b * cosine - a * sine);
        } else {
            float a = wide(own[at]), b = wide(own[half + at]);
            place[at] = narrow(a * cosine - b * sine);
            place[half + at] = narrow(b * cosine + a * sine);
        }
    }
}

// From attention's [batch, heads, tokens, width] to [batch, tokens, heads, width], or back. A block for
// each token.
extern "C" __global__ void merge_heads(bf16* by_head, bf16* by_token, int tokens, int heads, int width, int back) {
    long long sequence = blockIdx.x / tokens, token = blockIdx.x % tokens;
    for (int n = threadIdx.x; n < heads * width; n += blockDim.x) {
        int head = n / width, at = n % width;
        bf16* split = by_head + ((sequence * heads + head) * tokens + token) * width + at;
        bf16* whole = by_token + (long long)blockIdx.x * heads * width + n;
        if (back) *split = *whole; else *whole = *split;
    }
}

// Of picking rows of a table: the sum of the gradients of all places with the same id goes to the row of that
// id; `out` is 0 elsewhere before. A block for each place; the first with its id adds the others in order.
extern "C" __global__ void rows_backward(const bf16* gradient, const int* ids, bf16* out, int count, int width) {
    __shared__ int found[256];
    __shared__ int earlier, matches;
    int place = blockIdx.x, id = ids[place], thread = threadIdx.x;
    if (thread == 0) earlier = 0;
    __syncthreads();
    for (int at = thread; at < place; at += blockDim.x) if (ids[at] == id) earlier = 1;
    __syncthreads();
    if (earlier) return;
    float sums[32];
    #pragma unroll
    for (int n = 0; n < 32; n++) sums[n] = 0.0f;
    for (int start = place; start < count; start += 256) {
        int at = start + thread;
        bool match = at < count && ids[at] == id;
        // Matches in order, however the threads run.
        u32 votes = __ballot_sync(0xffffffffu, match);
        __shared__ u32 all[8];
        if ((thread & 31) == 0) all[thread >> 5] = votes;
        __syncthreads();
        if (thread == 0) {
            matches = 0;
            for (int warp = 0; warp < 8; warp++)
                for (u32 left = all[warp]; left; left &= left - 1) found[matches++] = start + 32 * warp + __ffs(left) - 1;
        }
        __syncthreads();
        for (int n = 0; n < matches; n++) {
            const bf16* row = gradient + (long long)found[n] * width;
            #pragma unroll
            for (int k = 0; k < 32; k++) {
                int column = thread + 256 * k;
                if (column < width) sums[k] += wide(row[column]);
            }
        }
        __syncthreads();
    }
    #pragma unroll
    for (int k = 0; k < 32; k++) {
        int column = thread + 256 * k;
        if (column < width) out[(long long)id * width + column] = narrow(sums[k]);
    }
}

// Lines of so many values, at other distances in the copy: a block for each line.
extern "C" __global__ void copy_lines(const bf16* from, bf16* to, long long from_step, long long to_step, int count) {
    const bf16* source = from + blockIdx.x * from_step;
    bf16* target = to + blockIdx.x * to_step;
    for (int at = threadIdx.x; at < count; at += blockDim.x) target[at] = source[at];
}
