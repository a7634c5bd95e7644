// What a step of learning does beside the layers: the head's rows of logits, and AdamW over all parameters.

// Sums over a row of scaled logits, relative to the largest seen: Σ e^(x − peak) and Σ e^(x − peak) · (x − peak).
struct RowSums {
    float peak, sum, moment;

    __device__ __forceinline__ void rise(float top) {
        if (top > peak) {
            float step = peak - top, shrink = __expf(step);
            moment = (moment + step * sum) * shrink;
            sum *= shrink;
            peak = top;
        }
    }
    __device__ __forceinline__ void add(float x) {
        float d = x - peak, e = __expf(d);
        sum += e;
        moment += e * d;
    }
};

// Of each row of logits, times `inverse`: log Σ exp, the log-probability of the target and the entropy. A block for
// each row, which is read once.
extern "C" __global__ void __launch_bounds__(512) read_logits(
    const float* logits, const int* targets, float* logp, float* entropy, float* normalisers, int vocabulary, float inverse) {
    __shared__ float shared[33];
    const float* row = logits + (long long)blockIdx.x * vocabulary;
    // Finite, so that a difference to it is never NaN.
    RowSums own = {-1e30f, 0.0f, 0.0f};
    if ((vocabulary & 3) == 0) {
        const float4* fours = (const float4*)row;
        #pragma unroll 2
        for (int at = threadIdx.x; at < vocabulary >> 2; at += blockDim.x) {
            float4 x = fours[at];
            x.x *= inverse; x.y *= inverse; x.z *= inverse; x.w *= inverse;
            own.rise(fmaxf(fmaxf(x.x, x.y), fmaxf(x.z, x.w)));
            own.add(x.x); own.add(x.y); own.add(x.z); own.add(x.w);
        }
    } else {
        for (int at = threadIdx.x; at < vocabulary; at += blockDim.x) {
            float x = row[at] * inverse;
            own.rise(x);
            own.add(x);
        }
    }
    float peak = block_max(own.peak, shared);
    own.rise(peak);
    float sum = block_sum(own.sum, shared), moment = block_sum(own.moment, shared);
    if (threadIdx.x == 0) {
        float normaliser = peak + logf(sum);
        normalisers[blockIdx.x] = normaliser;
        logp[blockIdx.x] = row[targets[blockIdx.x]] * inverse - normaliser;
        entropy[blockIdx.x] = logf(sum) - moment / sum;
    }
}

// The gradient by logits, given the gradients by each row's log-probability and entropy:
// inverse · (by_logp · (onehot − p) − by_entropy · p · (log p + entropy)), p = softmax(inverse · logits).
extern "C" __global__ void __launch_bounds__(512) logits_gradient(
    const float* logits, const int* targets, const float* normalisers, const float* entropy, const float* by_logp,
    const float* by_entropy, bf16* out, int vocabulary, float inverse) {
    long long start = (long long)blockIdx.x * vocabulary;
    const float* row = logits + start;
    bf16* to = out + start;
    float normaliser = normalisers[blockIdx.x], level = entropy[blockIdx.x];
    float a = by_logp[blockIdx.x], b = by_entropy[blockIdx.x];
    int target = targets[blockIdx.x];
    auto gradient = [&](float x, int at) {
        float log = x * inverse - normaliser, p = __expf(log);
        float slope = b == 0.0f || p == 0.0f ? a : a + b * (log + level);
        return inverse * ((at == target ? a : 0.0f) - p * slope);
    };
    if ((vocabulary & 3) == 0) {
        const float4* fours = (const float4*)row;
        #pragma unroll 2
        for (int at = threadIdx.x; at < vocabulary >> 2; at += blockDim.x) {
            float4 x = fours[at];
            uint2 both;
            both.x = pair(gradient(x.x, 4 * at), gradient(x.y, 4 * at + 1));
            both.y = pair(gradient(x.z, 4 * at + 2), gradient(x.w, 4 * at + 3));
            ((uint2*)to)[at] = both;
        }
    } else {
        for (int at = threadIdx.x; at < vocabulary; at += blockDim.x) to[at] = narrow(gradient(row[at], at));
    }
}

// A parameter and what the optimiser keeps of it. Without moments (0) they are zeros; without f32 values, they are
// in `narrow`. All are flat.
struct Parameter {
    const float* gradient;
    const float* value;
    const bf16* narrow;
    const float* first;
    const float* second;
    float* new_value;
    float* new_first;
    float* new_second;
    bf16* new_narrow;
    long long count;
};
#define SPAN 16384

// The sum of squares of all gradients, one part for each block. A block takes SPAN values of one parameter: the
// upper half of its entry says which, the lower half which of its spans.
extern "C" __global__ void __launch_bounds__(256) square_gradients(
    const Parameter* parameters, const unsigned long long* blocks, float* parts) {
    __shared__ float shared[33];
    unsigned long long entry = blocks[blockIdx.x];
    const Parameter& own = parameters[entry >> 32];
    long long start = (long long)(u32)entry * SPAN;
    long long left = own.count - start;
    int count = left < SPAN ? (int)left : SPAN;
    const float* gradient = own.gradient + start;
    float sum = 0.0f;
    for (int at = threadIdx.x; at < count >> 2; at += 256) {
        float4 x = ((const float4*)gradient)[at];
        sum += x.x * x.x + x.y * x.y + x.z * x.z + x.w * x.w;
    }
    for (int at = (count & ~3) + threadIdx.x; at < count; at += 256) sum += gradient[at] * gradient[at];
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

// A step of AdamW on all parameters; blocks as above. `parts` gets the sums of squared changes. `rate` is the
// learning rate over the first moment's bias correction, `root` 1 over the root of the second's.
extern "C" __global__ void __launch_bounds__(256) adamw(
    const Parameter* parameters, const unsigned long long* blocks, float* parts, float scale, float beta_1, float rest_1,
    float beta_2, float rest_2, float epsilon, float rate, float root, float decay) {
    __shared__ float shared[33];
    unsigned long long entry = blocks[blockIdx.x];
    Parameter own = parameters[entry >> 32];
    long long start = (long long)(u32)entry * SPAN;
    long long left = own.count - start;
    int count = left < SPAN ? (int)left : SPAN;
    float change = 0.0f;
    auto step = [&](float gradient, float& value, float& first, float& second) {
        gradient *= scale;
        first = beta_1 * first + rest_1 * gradient;
        second = beta_2 * second + rest_2 * gradient * gradient;
        float old = value;
        value = old * decay - rate * first / (sqrtf(second) * root + epsilon);
        change += (value - old) * (value - old);
    };
    for (int at = threadIdx.x; at < count >> 2; at += 256) {
        long long four = (start >> 2) + at;
        float4 gradient = ((const float4*)own.gradient)[four], value;
        if (own.value) {
            value = ((const float4*)own.value)[four];
        } else {
            uint2 both = ((const uint2*)own.narrow)[four];
            value.x = low(both.x); value.y = high(both.x); value.z = low(both.y); value.w = high(both.y);
        }
        float4 first = {0.0f, 0.0f, 0.0f, 0.0f}, second = first;
        if (own.first) {
            first = ((const float4*)own.first)[four];
            second = ((const float4*)own.second)[four];
        }
        step(gradient.x, value.x, first.x, second.x);
        step(gradient.y, value.y, first.y, second.y);
        step(gradient.z, value.z, first.z, second.z);
        step(gradient.w, value.w, first.w, second.w);
        ((float4*)own.new_value)[four] = value;
        ((float4*)own.new_first)[four] = first;
        ((float4*)own.new_second)[four] = second;
        if (own.new_narrow) {
            uint2 both;
            both.x = pair(value.x, value.y);
            both.y = pair(value.z, value.w);
            ((uint2*)own.new_narrow)[four] = both;
        }
    }
    for (int n = (count & ~3) + threadIdx.x; n < count; n += 256) {
        long long at = start + n;
        float value = own.value ? own.value[at] : wide(own.narrow[at]);
        float first = own.first ? own.first[at] : 0.0f, second = own.second ? own.second[at] : 0.0f;
        step(own.gradient[at], value, first, second);
        own.new_value[at] = value;
        own.new_first[at] = first;
        own.new_second[at] = second;
        if (own.new_narrow) own.new_narrow[at] = narrow(value);
    }
    change = block_sum(change, shared);
    if (threadIdx.x == 0) parts[blockIdx.x] = change;
}

// The sum of all parts, by one block, in a fixed order.
extern "C" __global__ void __launch_bounds__(1024) sum_parts(const float* parts, float* out, int count) {
    __shared__ float shared[33];
    float sum = 0.0f;
    for (int at = threadIdx.x; at < count; at += blockDim.x) sum += parts[at];
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0) *out = sum;
}
