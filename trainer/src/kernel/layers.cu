// The parts of a layer that are not products, forward and backward, and the embedding.

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

// Rows of queries, keys and values side by side, one a token, with the first `turning` of the `heads` heads turned to
// their token's position. A block for each token; width is a multiple of 16.
extern "C" __global__ void rotate_heads(
    const bf16* all, bf16* out, const float* cosines, const float* sines, int tokens, int turning, int heads, int width) {
    int token = blockIdx.x % tokens, half = width >> 1, pieces = half >> 3;
    long long start = (long long)blockIdx.x * heads * width;
    for (int n = threadIdx.x; n < heads * pieces; n += blockDim.x) {
        int head = n / pieces, piece = n % pieces;
        long long at = start + (long long)head * width + 8 * piece;
        uint4 left = *(const uint4*)(all + at), right = *(const uint4*)(all + at + half);
        if (head < turning) {
            u32* a = (u32*)&left;
            u32* b = (u32*)&right;
            long long angle = (long long)token * half + 8 * piece;
            #pragma unroll
            for (int k = 0; k < 4; k++) {
                float c0 = cosines[angle + 2 * k], s0 = sines[angle + 2 * k];
                float c1 = cosines[angle + 2 * k + 1], s1 = sines[angle + 2 * k + 1];
                float a0 = low(a[k]), a1 = high(a[k]), b0 = low(b[k]), b1 = high(b[k]);
                a[k] = pair(a0 * c0 - b0 * s0, a1 * c1 - b1 * s1);
                b[k] = pair(b0 * c0 + a0 * s0, b1 * c1 + a1 * s1);
            }
        }
        *(uint4*)(out + at) = left;
        *(uint4*)(out + at + half) = right;
    }
}
