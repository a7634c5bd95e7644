// What all kernels have in common: numbers, sums of a block, and the instructions of the tensor cores.
//
// The trainer computes on an NVIDIA GPU itself what is neither a matrix product (cuBLAS) nor Burn's. These files are
// one source, compiled by NVRTC when a device is first used; no header is needed. Every kernel has a
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
__device__ float block_max(float x, float* shared) {
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = (blockDim.x + 31) >> 5;
    x = warp_max(x);
    if (lane == 0) shared[warp] = x;
    __syncthreads();
    if (warp == 0) {
        x = warp_max(lane < warps ? shared[lane] : -INFINITY);
        if (lane == 0) shared[32] = x;
    }
    __syncthreads();
    x = shared[32];
    __syncthreads();
    return x;
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
