#include "train/config/translations/carries.h"
#include "train/config/translations/systems.h"
#include "train/config/translations/translations.h"

namespace accrue::train {

const std::vector<Translation>& translations_of_ranks() {
  static const std::vector<Translation> table{
      // Devices and ranks.
      {{{"run.device", "\"cpu\"", nullptr, "\"cpu\""}},
       "by default a GPU if there is one",
       {{kLightning, "accelerator"},
        {kHuggingFace, "use_cpu no_cuda"},
        {kAccelerate, "cpu use_cpu"},
        {kFairseq, "cpu"}}},
      {{},
       "leaving it out, as there are as many ranks as the launcher starts: torchrun --no-python "
       "--nproc-per-node=4 accrue train CONFIG",
       {{kLightning, "devices num_nodes strategy"},
        {kLitGpt, "devices num_nodes"},
        {kAccelerate, "num_processes num_machines gpu_ids multi_gpu distributed_type"},
        {kFairseq, "distributed_world_size"},
        {kPyTorch, "world_size local_rank master_addr master_port nproc_per_node"},
        {kHuggingFace, "local_rank"},
        {kScripts, "num_gpus n_gpu gpus"}}},
      {{{"dist.backend", "\"gloo\"", carry::same}},
       "of CPUs; \"auto\", the default, is the same there, and takes NCCL for GPUs",
       {{kFairseq, "distributed_backend"},
        {kMegatron, "distributed_backend"},
        {kHuggingFace, "ddp_backend"}}},
      {{},
       "leaving it out, as ranks sum their gradients once an optimizer step, however many "
       "micro-batches it has",
       {{kPyTorch, "no_sync require_backward_grad_sync set_requires_gradient_sync"},
        {kAccelerate, "no_sync sync_each_batch"},
        {kComposer, "ddp_sync_strategy"}}},
      {{{"dist.reduce", "\"overlap\"", nullptr, "\"end\""}},
       "gradients are summed during the backward of the last micro-batch",
       {{kDeepSpeed, "overlap_comm"}, {kMegatron, "overlap_grad_reduce"}}},
      {{{"dist.compress", "\"bf16\"", carry::precision, "\"none\""}},
       "how gradients travel between ranks; not exact, what is left out comes with the next step",
       {{kDeepSpeed, "communication_data_type"},
        {kMegatron, "grad_reduce_in_bf16"},
        {kFairseq, "ddp_comm_hook"}}},
      {{{"dist.shard", "\"optimizer\"", carry::shard, "\"none\""}},
       "of the optimizer's state alone, as ZeRO stage 1; each rank has all gradients and "
       "parameters",
       {{kDeepSpeed, "zero_optimization zero_optimization.stage"},
        {kAccelerate, "zero_stage use_fsdp fsdp_sharding_strategy"},
        {kLlmC, "zero_stage"},
        {kHuggingFace, "fsdp fsdp_config deepspeed"},
        {kAxolotl, "fsdp fsdp_config deepspeed dp_shard_size"},
        {kComposer, "fsdp_config parallelism_config sharding_strategy"},
        {kMegatron, "use_distributed_optimizer data_parallel_sharding_strategy"},
        {kTorchTitan, "data_parallel_shard_degree"},
        {kFairseq, "zero_sharding"},
        {kPyTorch, "zeroredundancyoptimizer"}}},
      {{},
       "leaving it out, as gradients lie in one flat buffer, and a parameter that nothing uses has "
       "gradient 0",
       {{kPyTorch,
         "find_unused_parameters gradient_as_bucket_view bucket_cap_mb broadcast_buffers "
         "static_graph"},
        {kFairseq,
         "find_unused_parameters gradient_as_bucket_view bucket_cap_mb broadcast_buffers"},
        {kHuggingFace, "ddp_find_unused_parameters ddp_bucket_cap_mb ddp_broadcast_buffers"},
        {kAxolotl, "ddp_find_unused_parameters ddp_bucket_cap_mb ddp_broadcast_buffers"},
        {kDeepSpeed,
         "reduce_bucket_size allgather_bucket_size contiguous_gradients reduce_scatter"}}},
      {{{"dist.stages", "2", carry::same}},
       "as many as there are ranks",
       {{kMegatron, "pipeline_model_parallel_size"},
        {kAccelerate, "megatron_lm_pp_degree"},
        {kTorchTitan, "pipeline_parallel_degree"}}},
      {{},
       "leaving it out, as ranks share a step's micro-batches, or are the stages of a pipeline "
       "(dist.stages)",
       {{kMegatron,
         "tensor_model_parallel_size context_parallel_size sequence_parallel "
         "expert_model_parallel_size"},
        {kTorchTitan, "tensor_parallel_degree context_parallel_degree"},
        {kAxolotl, "tensor_parallel_size context_parallel_size"},
        {kAccelerate, "megatron_lm_tp_degree"}}},
      {{{"dist.local_steps", "8", carry::same}},
       "optimizer steps that each rank takes alone; dist.outer.lr is the rate of the steps between",
       {{kAccelerate, "local_sgd_steps"}, {kFairseq, "localsgd_frequency"}}},
      {{{"dist.outer.momentum", "0.9", carry::same}},
       "Nesterov's, of the step by the mean of what ranks moved",
       {{kFairseq, "slowmo_momentum"}}},
      {{{"dist.timeout", "\"30 min\"", carry::seconds}},
       "of each wait for the other ranks",
       {{kHuggingFace, "ddp_timeout"}, {kAxolotl, "ddp_timeout"}, {kComposer, "dist_timeout"}}},
      {{{"dist.timeout", "\"10 min\"", carry::minutes}},
       "of each wait for the other ranks",
       {{kMegatron, "distributed_timeout_minutes"}}},
  };
  return table;
}

}  // namespace accrue::train
