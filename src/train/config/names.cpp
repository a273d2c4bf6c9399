#include "names.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "accrue/core/nearest.h"
#include "key.h"

namespace accrue::train {
namespace {

struct Path {
  std::string section, leaf;
};

Path split(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string::npos) return {"", name};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

std::size_t key_distance(const Path& name, const Path& known) {
  constexpr std::size_t leaf_weight = 2, most_for_section = 3;
  return leaf_weight * edit_distance(name.leaf, known.leaf) +
         std::min(most_for_section, edit_distance(name.section, known.section));
}

std::string normalised(std::string name) {
  for (char& c : name)
    c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

constexpr const char* accumulation =
    "batch.tokens or batch.samples, the whole batch of one optimizer step: it becomes as many "
    "micro-batches as memory asks for (a micro-batch size may be given as batch.micro)";
constexpr const char* per_device =
    "batch.micro (samples per micro-batch; \"auto\" fits the memory)";
constexpr const char* whole_batch =
    "batch.samples or batch.tokens (the batch of one optimizer step)";
constexpr const char* half = "precision.compute = \"bf16\"";
constexpr const char* steps = "run.steps";
constexpr const char* epochs = "run.epochs";
constexpr const char* context = "model.context";
constexpr const char* layers = "model.layers";
constexpr const char* heads = "model.heads";
constexpr const char* width = "model.width";
constexpr const char* clip = "optim.clip";
constexpr const char* warmup = "optim.schedule.warmup";
constexpr const char* schedule_kind = "optim.schedule.kind";
constexpr const char* betas = "optim.betas = [beta1, beta2]";
constexpr const char* recompute = "memory.recompute (not in this version)";

/// Names of Hugging Face, Lightning, DeepSpeed, Megatron, Composer, nanoGPT, litgpt and llm.c.
const std::map<std::string, std::string>& translations() {
  static const std::map<std::string, std::string> table{
      {"gradient_accumulation_steps", accumulation},
      {"gradient_accumulation_iters", accumulation},
      {"gradient_accumulation", accumulation},
      {"grad_accumulation_steps", accumulation},
      {"grad_accum_steps", accumulation},
      {"grad_accum", accumulation},
      {"accumulation_steps", accumulation},
      {"accumulate_grad_batches", accumulation},
      {"per_device_train_batch_size", per_device},
      {"per_gpu_train_batch_size", per_device},
      {"device_train_microbatch_size", per_device},
      {"train_micro_batch_size_per_gpu", per_device},
      {"micro_batch_size", per_device},
      {"microbatch_size", per_device},
      {"micro_batch", per_device},
      {"device_batch_size", per_device},
      {"train_batch_size", whole_batch},
      {"global_batch_size", whole_batch},
      {"global_train_batch_size", whole_batch},
      {"total_batch_size", whole_batch},
      {"effective_batch_size", whole_batch},
      {"batch_size", whole_batch},
      {"learning_rate", "optim.lr"},
      {"min_learning_rate", "optim.schedule.min_lr"},
      {"decay_lr", schedule_kind},
      {"lr_scheduler", schedule_kind},
      {"lr_scheduler_type", schedule_kind},
      {"lr_decay_style", schedule_kind},
      {"warmup_steps", warmup},
      {"warmup_iters", warmup},
      {"num_warmup_steps", warmup},
      {"lr_warmup_iters", warmup},
      {"lr_warmup_steps", warmup},
      {"warmup_ratio", "optim.schedule.warmup = \"1%\" (percent of the run)"},
      {"lr_decay_iters", "the run's length (run.steps), which is the schedule's horizon"},
      {"max_steps", steps},
      {"max_iters", steps},
      {"train_iters", steps},
      {"num_steps", steps},
      {"total_steps", steps},
      {"num_train_steps", steps},
      {"num_iterations", steps},
      {"num_train_epochs", epochs},
      {"num_epochs", epochs},
      {"max_epochs", epochs},
      {"max_tokens", "run.tokens"},
      {"max_duration", "run.steps, run.tokens or run.epochs"},
      {"max_grad_norm", clip},
      {"gradient_clip_val", clip},
      {"gradient_clipping", clip},
      {"grad_clip", clip},
      {"clip_grad", clip},
      {"clip_grad_norm", clip},
      {"fp16", half},
      {"bf16", half},
      {"mixed_precision", half},
      {"amp", half},
      {"dtype", "precision.compute"},
      {"torch_dtype", "precision.compute"},
      {"optimizer", "optim.kind"},
      {"adam_beta1", betas},
      {"adam_beta2", betas},
      {"beta1", betas},
      {"beta2", betas},
      {"adam_epsilon", "optim.eps"},
      {"adam_eps", "optim.eps"},
      {"epsilon", "optim.eps"},
      {"wd", "optim.weight_decay"},
      {"seq_length", context},
      {"seq_len", context},
      {"sequence_length", context},
      {"max_seq_len", context},
      {"max_seq_length", context},
      {"max_position_embeddings", context},
      {"context_length", context},
      {"block_size", context},
      {"n_positions", context},
      {"n_ctx", context},
      {"n_layer", layers},
      {"n_layers", layers},
      {"num_layers", layers},
      {"num_hidden_layers", layers},
      {"n_head", heads},
      {"n_heads", heads},
      {"num_heads", heads},
      {"num_attention_heads", heads},
      {"n_embd", width},
      {"d_model", width},
      {"hidden_size", width},
      {"vocab_size", "model.vocab"},
      {"init_from", "model.from"},
      {"model_name_or_path", "model.from"},
      {"output_dir", "run.out"},
      {"out_dir", "run.out"},
      {"default_root_dir", "run.out"},
      {"save_steps", "run.checkpoint_every = \"500 steps\""},
      {"save_interval", "run.checkpoint_every = \"500 steps\""},
      {"save_total_limit", "run.keep"},
      {"load_best_model_at_end", "run.keep_best"},
      {"eval_steps", "run.eval_every"},
      {"eval_interval", "run.eval_every"},
      {"val_check_interval", "run.eval_every"},
      {"eval_iters", "run.eval_batches"},
      {"limit_val_batches", "run.eval_batches"},
      {"train_file", "data.train"},
      {"validation_file", "data.val"},
      {"validation_split", "data.val_fraction"},
      {"gradient_checkpointing", recompute},
      {"activation_checkpointing", recompute},
      {"resume_from_checkpoint", "accrue train CONFIG --resume"},
      {"dataloader_drop_last", "batch.last = \"drop\""},
      {"drop_last", "batch.last = \"drop\""},
  };
  return table;
}

}  // namespace

std::string nearest_key(const std::string& name) {
  const Path path = split(name);
  return std::min_element(keys().begin(), keys().end(),
                          [&](const Key& a, const Key& b) {
                            return key_distance(path, split(a.name)) <
                                   key_distance(path, split(b.name));
                          })
      ->name;
}

std::optional<std::string> translation(const std::string& path) {
  const auto at = translations().find(normalised(split(path).leaf));
  if (at == translations().end()) return std::nullopt;
  return at->second;
}

}  // namespace accrue::train
