"""Kernel names as profilers write them, with what they are: (name, op class, backend).

Collected from recorded traces and from the sources of the libraries named; at least one for every
rule of kernel_rules.toml.
"""

ATEN = "void at::native::"
LAMBDA = "::{lambda()#1}::operator()() const::{lambda(float)#1}"

NAMES: tuple[tuple[str, str, str], ...] = (
    # copies by the runtime
    ("Memcpy DtoD (Device -> Device)", "copy", "runtime"),
    ("Memcpy HtoD (Pageable -> Device)", "copy", "runtime"),
    ("Memset (Device)", "copy", "runtime"),
    ("CopyDeviceToHost", "copy", "runtime"),
    ("__amd_rocclr_copyBuffer.kd", "copy", "runtime"),
    ("__amd_rocclr_fillBufferAligned", "copy", "runtime"),
    # Inductor
    ("triton_poi_fused_mul_silu_2", "pointwise", "Inductor"),
    ("triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_0", "pointwise", "Inductor"),
    ("triton_per_fused__softmax_3", "pointwise", "Inductor"),
    ("triton_for_fused_0", "pointwise", "Inductor"),
    ("triton_poi_fused__to_copy_1", "copy", "Inductor"),
    ("triton_poi_fused_clone_permute_7", "copy", "Inductor"),
    ("triton_poi_fused_view_7", "pointwise", "Inductor"),
    ("triton_poi_fused_0", "pointwise", "Inductor"),
    (
        "triton_poi_fused__scaled_dot_product_cudnn_attention_add_arange_where_3",
        "pointwise",
        "Inductor",
    ),
    ("triton__0d1d2d3de", "pointwise", "Inductor"),
    ("triton_", "pointwise", "Inductor"),
    ("triton_tem_fused_mm_silu_3", "gemm", "Inductor template"),
    ("triton_tem_fused_0", "gemm", "Inductor template"),
    ("triton_mm_17", "gemm", "Inductor template"),
    ("triton_tem_fused_flex_attention_0", "attention", "Inductor template"),
    # communication
    (
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "communication",
        "NCCL/RCCL",
    ),
    ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", "communication", "NCCL/RCCL"),
    ("void deep_ep::internode_ll::dispatch<true, 3, 10, 7168>(void*)", "communication", "DeepEP"),
    ("gloo::cuda::copyKernel(float*)", "communication", "Gloo"),
    ("nvshmemi_barrier_all_kernel(int)", "communication", "NVSHMEM"),
    (
        "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)",
        "communication",
        "custom all-reduce",
    ),
    (
        "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<1>(int)",
        "communication",
        "custom all-reduce",
    ),
    (
        "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(long)",
        "communication",
        "custom all-reduce",
    ),
    ("_combine_all_to_all_kernel", "communication", "Triton (user)"),
    # attention
    (
        "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64> >(int)",
        "attention",
        "FlashAttention",
    ),
    (
        "void flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<128, 64>, 4, 1>(int)",
        "attention",
        "FlashAttention",
    ),
    (
        "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<flash::X> > >(P)",
        "attention",
        "FlashAttention",
    ),
    (
        "kernel_cutlass_kernel_flash_attncuteflash_fwdFlashAttentionForwardSm100_object_at__1",
        "attention",
        "FlashAttention",
    ),
    (
        "void flashinfer::BatchDecodeWithPagedKVCacheKernel<(flashinfer::PosEncodingMode)0>(P)",
        "attention",
        "FlashInfer",
    ),
    (
        "fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel<X>)",
        "attention",
        "memory-efficient attention",
    ),
    ("fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausal", "attention", "TensorRT-LLM"),
    ("cudnn_generated_fort_native_sdpa_sm80_flash_fprop_wmma_f16_k", "attention", "cuDNN"),
    (
        "void cutlass::device_kernel<cutlass::fmha::kernel::Sm100FmhaFwdKernelTma<X> >(P)",
        "attention",
        "CUTLASS",
    ),
    (
        "_ZN7ck_tile6kentryILi2ENS_38FmhaBatchPrefillWithPagedKVCacheKernelINS_5TraitE",
        "attention",
        "CK",
    ),
    ("_ZN5aiter24fmha_fwd_hd128_bf16_rtneE", "attention", "AITER"),
    ("mla_dec_stage1_bf16_a16w16_subQ16_mqa16", "attention", "AITER"),
    (
        "void paged_attention_ll4mi_reduce_kernel<__hip_bfloat16, 128, 256>(__hip_bfloat16*)",
        "attention",
        "vLLM",
    ),
    (
        "void vllm::paged_attention_v1_kernel<unsigned short, 128, 16>(unsigned short*)",
        "attention",
        "vLLM",
    ),
    ("attn_fwd.kd", "attention", "AOTriton"),
    ("kernel_unified_attention_2d", "attention", "Triton (user)"),
    ("_fwd_kernel_stage2", "attention", "Triton (user)"),
    ("fused_recurrent_gated_delta_rule_fwd_kernel", "attention", "Triton (user)"),
    # cuDNN
    ("void nchwToNhwcKernel<float, float>(int, float const*)", "copy", "cuDNN"),
    (
        "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, 512, true>(cudnnTensorStruct)",
        "pointwise",
        "cuDNN",
    ),
    ("volta_scudnn_128x64_relu_interior_nn_v1", "gemm", "cuDNN"),
    (
        "sm80_xmma_fprop_implicit_gemm_bf16_nhwc_tilesize128x128x16_stage4_kernel_cudnn",
        "gemm",
        "cuDNN",
    ),
    ("cask_cudnn::computeOffsetsKernel(cask_cudnn::ComputeOffsetsParams)", "gemm", "cuDNN"),
    # GEMM libraries
    (
        "void at::native::tinygemm_m16n8k16_chunk_kernel<at::native::ALayout_RM<1> >(void const*)",
        "gemm",
        "tinygemm",
    ),
    ("void marlin::Marlin<__nv_bfloat16, 1125899906909960l, 256>(int4 const*)", "gemm", "Marlin"),
    ("void turbomind::rms_norm_kernel<__nv_bfloat16>(int)", "pointwise", "TurboMind"),
    ("gemm_Bfloat16_E4m3E4m3_Fp32_t128x64x128u2_s6_et64x32_sm100f", "gemm", "TensorRT-LLM"),
    (
        "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<"
        "cutlass::gemm::GroupProblemShape<cute::tuple<int>>>>(P)",
        "gemm",
        "CUTLASS",
    ),
    ("void marlin::gptq_marlin_repack_kernel<4, 256, true>(unsigned int*)", "pointwise", "Marlin"),
    (
        "void kgemm_4bit_inference_naive<__nv_bfloat16, 128, 16>(int, int)",
        "gemm",
        "bitsandbytes",
    ),
    (
        "void kDequantizeBlockwise<__nv_bfloat16, 512, 64, 8, 2>(float*)",
        "pointwise",
        "bitsandbytes",
    ),
    ("void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 4096u>(float*)", "gemm", "DeepGEMM"),
    (
        "void deep_gemm::transpose_and_pack_fp32_into_ue8m0<128u>(float*)",
        "copy",
        "DeepGEMM",
    ),
    (
        "void dot_kernel<float, 128, 0, cublasDotParams<cublasGemvTensor<float>>>(int)",
        "pointwise",
        "cuBLAS",
    ),
    ("nvjet_sm90_tst_64x8_64x16_4x1_v_bz_splitK_TNT", "gemm", "cuBLAS"),
    (
        "void splitKreduce_kernel<32, 16, int, float, float>(cublasSplitKParams<float>)",
        "gemm",
        "cuBLAS",
    ),
    (
        "void gemv2T_kernel_val<int, int, __half, 128, 16>(cublasGemvParamsEx<int>)",
        "gemm",
        "cuBLAS",
    ),
    ("std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int>(X)", "gemm", "cuBLAS"),
    ("ampere_bf16_s16816gemm_bf16_128x256_ldg8_relu_f2f_stages_64x3_tn", "gemm", "cuBLAS"),
    ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64_cublas", "gemm", "cuBLAS"),
    ("kernel_cutlass_kernel_mypackageSm100BlockScaledGemmKernel_object_at__0", "gemm", "CuTe DSL"),
    ("kernel_cutlass_kernel_quackrmsnormRMSNorm_object_at__tensor000", "pointwise", "CuTe DSL"),
    (
        "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_tn>(P)",
        "gemm",
        "CUTLASS",
    ),
    (
        "_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalIN4cute5tupleIJiiiEEEEEEEvT_",
        "gemm",
        "CUTLASS",
    ),
    (
        "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64_MI16x16x1_SN_K1",
        "gemm",
        "rocBLAS/hipBLASLt",
    ),
    ("rocblas_gemvt_warp_reduce_kernel", "gemm", "rocBLAS/hipBLASLt"),
    ("void rocblas_scal_kernel<256, float>(int)", "pointwise", "rocBLAS/hipBLASLt"),
    ("void wvSplitK_hf_sml_<__hip_bfloat16, 64, 4>(int)", "gemm", "vLLM"),
    ("void mul_mat_vec_q<256, 32, block_q4_K>(void const*)", "gemm", "GGML"),
    ("void dequantize_block<32, 1, __half>(void const*)", "pointwise", "GGML"),
    # libraries with everything in them
    (
        "_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdINS_7ProblemIDF16bEEEEEEvv",
        "pointwise",
        "CK",
    ),
    ("void ck::kernel_moe_gemm<ck::GridwiseMoeGemm<X>, true>(int)", "gemm", "CK"),
    ("igemm_fwd_gtcx2_nhwc_bf16_bx0_ex1_bt128x128x32_wt32x32x8_ws1x1_gkgs", "gemm", "MIOpen"),
    ("batched_transpose_16x64_pack_1x4_ediv_1x2_half", "copy", "MIOpen"),
    ("SubTensorOpWithScalar1d", "pointwise", "MIOpen"),
    (
        "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16ELb0ELb1ELi1EEEvPT0_",
        "pointwise",
        "AITER",
    ),
    ("_ZN5aiter41bf16gemm_fp32bf16_tn_96x64_splitk_clean_xE", "gemm", "AITER"),
    ("bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_sm100f", "gemm", "TensorRT-LLM"),
    (
        "void tensorrt_llm::kernels::cutlass_kernels::fp4_gemm_kernel<cutlass::half_t>(int)",
        "gemm",
        "TensorRT-LLM",
    ),
    (
        "void tensorrt_llm::kernels::quantize_with_block_size<32, true>(flashinfer::X)",
        "pointwise",
        "TensorRT-LLM",
    ),
    ("void moe::dev::routing::routingIndicesHistogramKernel<X>(X)", "pointwise", "TensorRT-LLM"),
    ("void flashinfer::norm::RMSNormKernel<8u, __nv_bfloat16>(float)", "pointwise", "FlashInfer"),
    (
        "std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type"
        " vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*)",
        "pointwise",
        "vLLM",
    ),
    (
        "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, unsigned char>(long)",
        "pointwise",
        "vLLM",
    ),
    ("void vllm::moe::topkGating<8, 128, 4, 16>(float const*)", "pointwise", "vLLM"),
    ("void vllm::gptq::gemm_half_q_half_gptq_4bit_kernel<true, 1>(int)", "gemm", "vLLM"),
    (
        "_ZN7sgl_hip10activation18act_and_mul_kernelI14__hip_bfloat16TnPFT_RKS3_E"
        "XadL_Z4siluIS2_ES3_S5_EEEEvPS3_PS4_i",
        "pointwise",
        "SGLang",
    ),
    ("void (anonymous namespace)::store_kvcache<2048l, 4, false, long>(P)", "pointwise", "SGLang"),
    ("void fbgemm_gpu::permute_2D_lengths_kernel<int>(int, int)", "pointwise", "FBGEMM"),
    ("void recat_copy_async_kernel<float>(long const*)", "copy", "FBGEMM"),
    (
        "void vision::ops::(anonymous namespace)::nms_kernel_impl<float>(int)",
        "other",
        "torchvision",
    ),
    ("void vision::ops::roi_align_forward_kernel_impl<float>(int)", "pointwise", "torchvision"),
    ("void mx_blocked_layout_2d_M_groups_kernel<64, 4>(unsigned char const*)", "copy", "torchao"),
    # ATen
    (
        f"{ATEN}unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda("
        f"at::TensorIteratorBase&){LAMBDA}, std::array<char*, 2ul> >(int)",
        "copy",
        "ATen",
    ),
    (
        f"{ATEN}vectorized_elementwise_kernel<4, at::native::bfloat16_copy_kernel_cuda("
        f"at::TensorIteratorBase&){LAMBDA} >(int)",
        "copy",
        "ATen",
    ),
    (
        f"{ATEN}(anonymous namespace)::CatArrayBatchedCopy_contig<float, unsigned int, 2>(float*)",
        "pointwise",
        "ATen",
    ),
    (
        f"{ATEN}index_elementwise_kernel<128, 4, at::native::index_copy_kernel_impl<X>(I&)>(long)",
        "pointwise",
        "ATen",
    ),
    (
        f"{ATEN}vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, X >(int)",
        "pointwise",
        "ATen",
    ),
    (
        f"{ATEN}reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<X> > >(X)",
        "pointwise",
        "ATen",
    ),
    (
        f"{ATEN}(anonymous namespace)::conv_depthwise2d_forward_kernel<3, float>(int)",
        "gemm",
        "ATen",
    ),
    (
        "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, true>(float*)",
        "pointwise",
        "ATen",
    ),
    (
        "void at_cuda_detail::cub::DeviceScanKernel<X>(int)",
        "pointwise",
        "CUB/Thrust",
    ),
    ("void cub::DeviceRadixSortOnesweepKernel<X>(int)", "pointwise", "CUB/Thrust"),
    (
        "void rocprim::ROCPRIM_400200_NS::detail::trampoline_kernel<rocprim::X>(int)",
        "pointwise",
        "rocPRIM",
    ),
    ("gen9_reduce_kernel", "pointwise", "oneDNN"),
    # plain names
    ("_matmul_ogs_NNT_bf16xbf16xmxfp4_128x128x128x1_swiglu", "gemm", "Triton (user)"),
    ("fused_moe_kernel", "gemm", "Triton (user)"),
    ("_silu_mul_fw_kernel", "pointwise", "Triton (user)"),
    ("_fused_qk_rope_reshape_and_cache_kernel", "pointwise", "Triton (user)"),
    ("_copy_into_buffer_2d_kernel", "copy", "Triton (user)"),
    ("_topk_forward", "pointwise", "Triton (user)"),
    # nothing is known
    ("my_secret_sauce", "other", "unknown"),
    ("void acme::widget<int>(int)", "other", "unknown"),
    ("", "other", "unknown"),
)
