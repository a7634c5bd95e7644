// The next token of each row, drawn in the same launch as its logits.

// What a row is drawn with: a seed, and what logits are multiplied by (0 or less takes
// the likeliest token).
struct Drawing {
    u32 low_seed, high_seed;
    float inverse;
    int unused;
};
struct Drawn {
    int id;
    float logp;
};

// Random bits for a token of a row: the finaliser of MurmurHash3 (Appleby 2011) twice, with half of the seed each time.
__device__ __forceinline__ u32 mixed(u32 x) {
    x = (x ^ (x >> 16)) * 0x85ebca6bu;
    x = (x ^ (x >> 13)) * 0xc2b2ae35u;
    return x ^ (x >> 16);
}
__device__ __forceinline__ u32 random_bits(u32 low_seed, u32 high_seed, int token) {
    return mixed(mixed((u32)token ^ low_seed) + high_seed);
}

// The token that exponential clocks with the tokens' probabilities as rates ring first (the Gumbel-max trick), and
// its log-probability; −1 where a logit is not finite. A block for each row.
extern "C" __global__ void __launch_bounds__(512) sample_tokens(
    const float* logits, const Drawing* drawings, Drawn* out, int vocabulary) {
    __shared__ float shared[33];
    __shared__ unsigned long long bests[16];
    Drawing drawing = drawings[blockIdx.x];
    bool draws = drawing.inverse > 0.0f;
    float inverse = draws ? drawing.inverse : 1.0f;
    const float* row = logits + (long long)blockIdx.x * vocabulary;
    float peak = -1e30f, sum = 0.0f, best = -INFINITY;
    int chosen = 0;
    auto take = [&](float x, int token) {
        sum += __expf(x - peak);
        float score = x;
        if (draws) {
            // In (0, 1), and exact in f32.
            float uniform = ((float)(random_bits(drawing.low_seed, drawing.high_seed, token) >> 9) + 0.5f) * 1.1920928955078125e-7f;
            score -= __logf(-__logf(uniform));
        }
        if (score > best) { best = score; chosen = token; }
    };
    auto rise = [&](float top) {
        if (top > peak) { sum *= __expf(peak - top); peak = top; }
    };
    if ((vocabulary & 3) == 0) {
        for (int at = threadIdx.x; at < vocabulary >> 2; at += blockDim.x) {
            float4 x = ((const float4*)row)[at];
            x.x *= inverse; x.y *= inverse; x.z *= inverse; x.w *= inverse;
            rise(fmaxf(fmaxf(x.x, x.y), fmaxf(x.z, x.w)));
            take(x.x, 4 * at); take(x.y, 4 * at + 1); take(x.z, 4 * at + 2); take(x.w, 4 * at + 3);
        }
    } else {
        for (int at = threadIdx.x; at < vocabulary; at += blockDim.x) {
            float x = row[at] * inverse;
            rise(x);
            take(x, at);
        }
    }
    float top = block_max(peak, shared);
    sum = block_sum(sum * __expf(peak - top), shared);
    // The highest score, and of equal ones the first token: both in one number that can be compared.
    u32 bits = __float_as_uint(best);
    bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    unsigned long long key = ((unsigned long long)bits << 32) | (u32)~(u32)chosen;
    for (int step = 16; step > 0; step >>= 1) {
        u32 upper = __shfl_xor_sync(0xffffffffu, (int)(u32)(key >> 32), step);
        u32 lower = __shfl_xor_sync(0xffffffffu, (int)(u32)key, step);
        unsigned long long other = ((unsigned long long)upper << 32) | lower;
        if (other > key) key = other;
    }
    if ((threadIdx.x & 31) == 0) bests[threadIdx.x >> 5] = key;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int n = 1; n < blockDim.x >> 5; n++) if (bests[n] > key) key = bests[n];
        int id = (int)~(u32)key;
        float logp = row[id < vocabulary && id >= 0 ? id : 0] * inverse - top - logf(sum);
        bool finite = isfinite(logp) && id >= 0 && id < vocabulary;
        out[blockIdx.x].id = finite ? id : -1;
        out[blockIdx.x].logp = logp;
    }
}
