#include "train/config/translations/carries.h"
#include "train/config/translations/systems.h"
#include "train/config/translations/translations.h"

namespace accrue::train {
namespace {

/// A number of samples; "auto" leaves it to the planner.
bool is_count(const Value& own) { return own.as<std::int64_t>() != nullptr; }

}  // namespace

const std::vector<Translation>& translations_of_batches() {
  static const std::vector<Translation> table{
      // Batches.
      {{{"batch.micro_batches", "8", carry::only_one},
        {"batch.micro", "4", nullptr, nullptr, is_count}},
       "of each rank, as there; or the whole batch of a step as batch.tokens or batch.samples, "
       "which becomes as many micro-batches as memory asks for",
       {{kHuggingFace, "gradient_accumulation_steps"},
        {kAccelerate,
         "gradient_accumulation_steps num_micro_batches megatron_lm_num_micro_batches"},
        {kDeepSpeed, "gradient_accumulation_steps"},
        {kLightning, "accumulate_grad_batches"},
        {kKeras, "gradient_accumulation_steps"},
        {kNanoGpt, "gradient_accumulation_steps"},
        {kTorchTune, "gradient_accumulation_steps"},
        {kAxolotl, "gradient_accumulation_steps"},
        {kOptax, "every_k_schedule"},
        {kFairseq, "update_freq"},
        {kMegatron, "num_microbatches"},
        {kLitGpt, "gradient_accumulation_iters"},
        {kNanoChat, "grad_accum_steps"},
        {kTimm, "grad_accum_steps"},
        {kMmEngine, "accumulative_counts"},
        {kPyTorch, "iters_to_accumulate"},
        {kScripts,
         "accumulation_steps accum_steps accum_iter accum_iters accum_grad "
         "accumulate_steps grad_accum grad_accumulation_steps grad_accumulation "
         "gradient_accumulation "
         "num_accumulation_steps"}}},
      {{{"batch.micro", "4", carry::same}},
       "what one pass of a rank takes; a step's batch is batch.samples or batch.tokens, or "
       "batch.micro_batches of these",
       {{kHuggingFace, "per_device_train_batch_size per_gpu_train_batch_size"},
        {kDeepSpeed, "train_micro_batch_size_per_gpu"},
        {kComposer, "device_train_microbatch_size"},
        {kMegatron, "micro_batch_size"},
        {kLitGpt, "micro_batch_size"},
        {kAxolotl, "micro_batch_size"},
        {kNanoChat, "device_batch_size"},
        {kTorchTitan, "local_batch_size"},
        {kScripts,
         "per_device_batch_size microbatch_size micro_batch mini_batch_size batch_size_per_gpu"}}},
      {{{"batch.samples", "32", carry::same}},
       "of one optimizer step, over all ranks, as there; or in tokens, as batch.tokens",
       {{kDeepSpeed, "train_batch_size"},
        {kMegatron, "global_batch_size"},
        {kLitGpt, "global_batch_size"},
        {kTorchTitan, "global_batch_size"},
        {kComposer, "global_train_batch_size"},
        {kScripts, "effective_batch_size total_train_batch_size"}}},
      {{{"batch.tokens", "524288", carry::same}},
       "tokens of one optimizer step, over all ranks, as there",
       {{kLlmC, "total_batch_size"},
        {kNanoChat, "total_batch_size"},
        {kTorchTitan, "num_tokens_per_train_step"}}},
      {{{"batch.samples", "32", carry::same}},
       "of one optimizer step, over all ranks; in nanoGPT, torchtune, llm.c and fairseq it is one "
       "pass of a rank, batch.micro",
       {{kPyTorch, "batch_size"},
        {kKeras, "batch_size"},
        {kNanoGpt, "batch_size"},
        {kTorchTune, "batch_size"},
        {kLlmC, "batch_size"},
        {kFairseq, "batch_size max_sentences"}}},
      {{{"batch.tokens", "4096"}},
       "of one optimizer step over all ranks; there of one pass of one rank",
       {{kFairseq, "dataset.max_tokens"}, {kTorchTitan, "num_tokens_per_microbatch_per_dp_rank"}}},
      {{{"batch.micro", "\"auto\"", nullptr, "4"}},
       "the fastest that fits the memory, and the batch of a step stays as it is stated",
       {{kHuggingFace, "auto_find_batch_size"}, {kAxolotl, "auto_find_batch_size"}}},
      {{{"batch.last", "\"drop\"", nullptr, "\"weighted\""}},
       "an epoch's short last batch; kept, it is weighted by what it has",
       {{kPyTorch, "drop_last"},
        {kComposer, "drop_last"},
        {kHuggingFace, "dataloader_drop_last"},
        {kAxolotl, "dataloader_drop_last"},
        {kFairseq, "skip_remainder_batch"}}},
      {{{"batch.ramp.from", "1"}, {"batch.ramp.over", "\"10%\""}},
       "in the batch's unit, from the first number there over the third; it grows by single "
       "samples",
       {{kMegatron, "rampup_batch_size step_batch_size_schedule"}}},
      {{},
       "leaving it out, as sums over all micro-batches and ranks are divided once, by the tokens "
       "that count",
       {{kHuggingFace, "average_tokens_across_devices"},
        {kMegatron, "calculate_per_token_loss"},
        {kComposer, "accumulate_train_batch_on_tokens"},
        {kFairseq, "sentence_avg"},
        {kOptax, "use_grad_mean"},
        {kDeepSpeed, "prescale_gradients gradient_predivide_factor"}}},
      {{},
       "leaving it out, as a batch is that of all ranks (batch.samples or batch.tokens), and a "
       "short last one is weighted (batch.last)",
       {{kAccelerate, "split_batches even_batches sync_with_dataloader"}}},

      // The length of a run.
      {{{"run.steps", "1000", carry::same}},
       "optimizer steps, however many micro-batches each has",
       {{kHuggingFace, "max_steps"},
        {kLightning, "max_steps"},
        {kAxolotl, "max_steps"},
        {kLitGpt, "max_steps"},
        {kNanoGpt, "max_iters"},
        {kMegatron, "train_iters"},
        {kLlmC, "num_iterations"},
        {kNanoChat, "num_iterations"},
        {kFairseq, "max_update"},
        {kPyTorch, "total_steps"},
        {kAccelerate, "max_train_steps"},
        {kScripts, "num_steps num_train_steps train_steps n_steps"}}},
      {{{"run.epochs", "3", carry::same}},
       "passes over the training data; a part of one is possible",
       {{kHuggingFace, "num_train_epochs"},
        {kLightning, "max_epochs"},
        {kAxolotl, "num_epochs"},
        {kFairseq, "max_epoch"},
        {kScripts, "n_epochs"}}},
      {{{"run.tokens", "1000000000", carry::same}},
       "input tokens over all ranks, padding not counted",
       {{kLitGpt, "train.max_tokens"}}},
      {{{"run.tokens", "1000000000"}},
       "of the whole run, as LitGPT has it; fairseq's, the tokens of one pass, has no counterpart, "
       "and a step's are batch.tokens",
       {{kLitGpt, "max_tokens"}, {kFairseq, "max_tokens"}}},
      {{{"run.epochs", "10"}},
       "\"10ep\" there; \"4800ba\" is run.steps = 4800, and \"1000tok\" run.tokens = 1000",
       {{kComposer, "max_duration"}}},
      {{{"run.tokens", "1000000000"}},
       "in tokens: the samples times their length, model.context",
       {{kMegatron, "train_samples"}}},
      {{},
       "leaving it out, as a run has its length in run.steps, run.tokens or run.epochs; SIGTERM "
       "ends it sooner, with a checkpoint",
       {{kLightning, "max_time"},
        {kLitGpt, "max_time"},
        {kFairseq, "stop_time_hours"},
        {kMegatron, "exit_duration_in_mins exit_interval"},
        {kAxolotl, "early_stopping_patience"},
        {kFairseq, "patience"}}},
      {{},
       "leaving it out, as an epoch is all of data.train; run.steps ends a run in the middle of "
       "one",
       {{kLightning, "limit_train_batches"},
        {kTorchTune, "max_steps_per_epoch"},
        {kKeras, "steps_per_epoch"},
        {kComposer, "train_subset_num_batches"}}},
  };
  return table;
}

}  // namespace accrue::train
