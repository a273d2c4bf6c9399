#include "train/config/checks.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <vector>

#include "accrue/core/error.h"
#include "core/words.h"
#include "train/config/accumulation_order.h"
#include "train/config/batch_checks.h"
#include "train/config/gradient_folding.h"
#include "train/config/graph_checks.h"
#include "train/config/key.h"
#include "train/config/origin_kind.h"
#include "train/config/toml/value.h"

namespace accrue::train {
namespace {

void check_exactly_one(const std::vector<std::string>& group, const StatedKeys& stated,
                       const std::string& origin, const std::string& example) {
  std::vector<std::string> present;
  for (const std::string& key : group)
    if (stated.contains(key)) present.push_back(key);
  if (present.size() == 1) return;
  const std::string operation =
      present.empty() ? "config " + origin : where(stated, present.back());
  throw usage_error(operation, "exactly one of " + listed(group, "and"),
                    present.empty() ? "none of them" : listed(present, "and"),
                    present.empty() ? "for example " + example : "removing all but one");
}

/// Throws if a run is so long that 64 bits cannot count its samples and tokens.
void check_length(const Config& config, const StatedKeys& stated) {
  constexpr double most = 1e18;
  const auto context = static_cast<double>(config.model.context_or_default());
  const std::int64_t samples =
      with_whole_batch(config, 1, where(stated, "batch.micro_batches")).batch.samples.value_or(0);
  const double of_samples = static_cast<double>(samples) * context;
  double batch = static_cast<double>(config.batch.tokens.value_or(0)) + of_samples;
  for (const BatchStage& stage : config.batch.schedule)
    batch = std::max(batch, static_cast<double>(stage.size) *
                                (config.batch.schedule_unit == BatchUnit::tokens ? 1 : context));
  const auto steps = static_cast<double>(config.run.steps.value_or(0));
  if (steps * batch <= most) return;
  throw usage_error(where(stated, "run.steps"), "a run of at most 1e18 tokens",
                    to_toml(Value{*config.run.steps}) + " steps of " + to_toml(Value{batch}),
                    "fewer steps, or a smaller batch");
}

void check_augment(const Config& config, const StatedKeys& stated) {
  if (!config.data.augment.crop || config.data.augment.pad == 0) return;
  throw usage_error(where(stated, "data.augment.pad"),
                    "either data.augment.crop or data.augment.pad, since both cut out a part",
                    "both", "removing one of them");
}

void check_data(const Config& config, const StatedKeys& stated, const std::string& origin) {
  const bool may_be_brought = config.model.kind == ModelKind::custom;
  if (config.data.train.empty() && !may_be_brought)
    throw usage_error(
        stated.contains("data.train") ? where(stated, "data.train") : "config " + origin,
        "data.train with at least one file pattern", "none",
        "for example data.train = [\"texts/*.txt\"]");
  const bool has_val = !config.data.val.empty();
  if (has_val && config.data.val_fraction > 0)
    throw usage_error(where(stated, "data.val_fraction"), "either data.val or data.val_fraction",
                      "both", "removing one of them");
  check_augment(config, stated);
  if (!config.data.columns.empty() && !config.data.weights.empty())
    throw usage_error(where(stated, "data.columns"), "file patterns alone in data.train",
                      "sources with weights, whose samples are tokens",
                      "data.train = [\"...\"], or leaving data.columns out");
  if (config.run.eval_every && !has_val && config.data.val_fraction == 0 && !may_be_brought)
    throw usage_error(where(stated, "run.eval_every"), "validation data to evaluate on", "none",
                      "data.val or data.val_fraction, or removing run.eval_every");
}

void check_heads(const Config& config, const StatedKeys& stated) {
  if (config.model.width % config.model.heads == 0) return;
  throw usage_error(where(stated, "model.width"),
                    "a multiple of model.heads (" + std::to_string(config.model.heads) + ")",
                    std::to_string(config.model.width), "another width or another number of heads");
}

void check_images(const Config& config, const StatedKeys& stated) {
  if (!config.batch.tokens) return;
  throw usage_error(where(stated, "batch.tokens"),
                    "batch.samples, since model.kind " + in_quotes(to_string(config.model.kind)) +
                        " takes images, which have no tokens",
                    "batch.tokens", "for example batch.samples = 256");
}

void check_resnet(const Config& config, const StatedKeys& stated) {
  const models::Stem stem = config.model.stem_or_usual();
  if (!models::resnet_stages(stem, config.model.layers))
    throw usage_error(where(stated, "model.layers"),
                      stem == models::Stem::conv7x7
                          ? "18, 34, 50, 101 or 152 layers, as networks with a stem of 7x7 have"
                          : "6n + 2 layers (8, 14, 20, 32, 44, 56, 110), or 18, 34, 50, 101 or 152 "
                            "of a network for larger images",
                      std::to_string(config.model.layers),
                      stem == models::Stem::conv7x7 ? "model.layers = 18" : "model.layers = 20");
  check_images(config, stated);
}

void check_vit(const Config& config, const StatedKeys& stated) {
  if (!config.model.has_shape_of_folder()) check_heads(config, stated);
  check_images(config, stated);
}

/// Label smoothing and a z-loss are terms of a cross-entropy that accrue computes itself.
void check_loss_terms(const Config& config, const StatedKeys& stated) {
  const bool is_script = config.model.kind == ModelKind::torchscript;
  const bool is_custom = config.model.kind == ModelKind::custom;
  const auto is_cross_entropy = [](const models::ScriptLoss& head) {
    return head.kind == models::ScriptLossKind::cross_entropy;
  };
  const bool has_cross_entropy =
      config.loss.method.empty() &&
      (config.loss.heads.empty() || std::ranges::any_of(config.loss.heads, is_cross_entropy));
  if (!is_custom && (!is_script || has_cross_entropy)) return;
  const auto refuse = [&](const char* key) {
    throw usage_error(where(stated, key),
                      std::string(key) + " only with a cross-entropy that accrue makes",
                      is_custom                    ? "the losses of model.kind = \"custom\""
                      : config.loss.method.empty() ? "loss.heads without one"
                                                   : "loss.method, the module's own loss",
                      "leaving " + std::string(key) + " out, or making it in the " +
                          (is_custom ? "program" : "module"));
  };
  const auto states = [&](const char* key, double value) {
    return value != 0 && stated.contains(key);
  };
  if (states("loss.label_smoothing", config.loss.label_smoothing)) refuse("loss.label_smoothing");
  if (states("loss.z_loss", config.loss.z_loss)) refuse("loss.z_loss");
}

void check_torchscript(const Config& config, const StatedKeys& stated) {
  if (config.model.from.empty())
    throw usage_error(where(stated, "model.kind"), "model.from to name the TorchScript file",
                      "nothing", "from = \"model.pt\" in [model]");
  if (config.loss.method.empty()) return;
  const bool reads_outputs = std::ranges::any_of(
      config.loss.heads, [](const models::ScriptLoss& head) { return !head.output.empty(); });
  if (!reads_outputs) return;
  throw usage_error(where(stated, "loss.method"),
                    "the module's own loss, of which loss.heads has the names and coefficients",
                    "a head with an output beside it", "loss.heads without output");
}

void check_gpt2(const Config& config, const StatedKeys& stated) {
  if (config.model.from.empty()) check_heads(config, stated);
}

void check_llama(const Config& config, const StatedKeys& stated) {
  if (!config.model.from.empty()) return;
  check_heads(config, stated);
  const std::int64_t heads = config.model.heads, kv_heads = config.model.kv_heads.value_or(heads);
  if (heads % kv_heads != 0)
    throw usage_error(where(stated, "model.kv_heads"),
                      "a divisor of model.heads (" + std::to_string(heads) + ")",
                      std::to_string(kv_heads), "another number of either");
  if (config.model.width / heads % 2 != 0)
    throw usage_error(where(stated, "model.width"),
                      "heads of an even width, whose channels rotate in pairs",
                      std::to_string(config.model.width) + " / " + std::to_string(heads),
                      "another width or another number of heads");
}

void check_bert(const Config& config, const StatedKeys& stated) {
  if (config.model.from.empty()) check_heads(config, stated);
}

/// Throws if a model cannot learn by the loss: a bert sees the tokens that a language model has to
/// predict, and other models do not see what follows a hidden token.
void check_hiding(const Config& config, const StatedKeys& stated) {
  const bool hides = config.loss.kind == models::LossKind::mlm;
  const bool is_bert = config.model.kind == ModelKind::bert;
  if (hides == is_bert) return;
  throw usage_error(
      where(stated, "loss.kind"),
      is_bert ? "\"mlm\" with model.kind = \"bert\", which sees all of a sample"
              : "\"mlm\" only with model.kind = \"bert\"",
      in_quotes(to_string(config.loss.kind)) + " with " + in_quotes(to_string(config.model.kind)),
      is_bert ? "leaving loss.kind out, or model.kind = \"gpt2\" or \"llama\""
              : "model.kind = \"bert\", or loss.kind = \"lm\"");
}

void check_adapters(const Config& config, const StatedKeys& stated) {
  if (config.model.lora.from.empty() || !config.model.from.empty()) return;
  throw usage_error(where(stated, "lora.from"), "model.from, the base that the adapter is of",
                    "nothing", "from = \"FOLDER\" in [model]");
}

void check_model(const Config& config, const StatedKeys& stated) {
  check_adapters(config, stated);
  if (config.model.kind == ModelKind::resnet) return check_resnet(config, stated);
  if (config.model.kind == ModelKind::vit) return check_vit(config, stated);
  if (config.model.kind == ModelKind::torchscript) return check_torchscript(config, stated);
  if (config.model.kind == ModelKind::llama) return check_llama(config, stated);
  if (config.model.kind == ModelKind::bert) return check_bert(config, stated);
  if (config.model.kind == ModelKind::gpt2) check_gpt2(config, stated);
}

void check_schedule(const Config& config, const StatedKeys& stated) {
  const ScheduleConfig& schedule = config.optim.schedule;
  if (schedule.min_lr > config.optim.lr)
    throw usage_error(where(stated, "optim.schedule.min_lr"),
                      "at most optim.lr (" + to_toml(Value{config.optim.lr}) + ")",
                      to_toml(Value{schedule.min_lr}), "a smaller one: it is absolute");
  if (config.run.steps && schedule.warmup.unit == Duration::Unit::steps &&
      schedule.warmup.value > static_cast<double>(*config.run.steps))
    throw usage_error(where(stated, "optim.schedule.warmup"),
                      "at most the run's length (" + std::to_string(*config.run.steps) + " steps)",
                      to_toml(Value{schedule.warmup.value}) + " steps", "a shorter one or \"1%\"");
  if (config.optim.scale_lr != optim::ScaleRule::none && !config.optim.base_batch)
    throw usage_error(where(stated, "optim.scale_lr"),
                      "optim.base_batch, the batch for which optim.lr was found", "none",
                      "for example optim.base_batch = 32768, in the unit of the batch");
}

void check_loss_scale(const Config& config, const StatedKeys& stated) {
  const auto scale = static_cast<std::uint64_t>(config.precision.loss_scale.value_or(1));
  if (std::has_single_bit(scale)) return;
  throw usage_error(where(stated, "precision.loss_scale"),
                    "a power of two, with which no product rounds", std::to_string(scale),
                    std::to_string(std::bit_floor(scale)));
}

void refuse_conflict(const std::optional<Conflict>& conflict, const StatedKeys& stated) {
  if (conflict)
    throw usage_error(where(stated, conflict->key), conflict->expected, conflict->received,
                      conflict->suggestion);
}

void check_optimizer_memory(const Config& config, const StatedKeys& stated) {
  if (config.optim.kind == OptimizerKind::adama &&
      config.memory.gradients == GradientPlace::buffer && stated.contains("memory.gradients"))
    throw usage_error(where(stated, "memory.gradients"),
                      "\"optimizer\" with optim.kind = \"adama\", which folds each micro-batch's "
                      "gradient into its moments",
                      "\"buffer\"", "optim.kind = \"adamw\", or removing memory.gradients");
  refuse_conflict(optimizer_memory_conflict(config), stated);
}

void check_accumulation_order(const Config& config, const StatedKeys& stated) {
  refuse_conflict(layered_conflict(config), stated);
}

void check_compression(const Config& config, const StatedKeys& stated) {
  if (config.dist.compress == distributed::Compression::none) return;
  const PrecisionConfig& precision = config.precision;
  const auto refuse = [&](const std::string& expected, const std::string& suggestion) {
    throw usage_error(where(stated, "dist.compress"), "\"none\" with " + expected,
                      in_quotes(to_string(config.dist.compress)), suggestion);
  };
  if (precision.accumulate == accum::Accumulation::fixed)
    refuse(
        "precision.accumulate = \"fixed\", whose promise of the same bits for any number of ranks "
        "no code keeps",
        "accumulate = \"fp32\"");
  if (precision.accumulate != accum::Accumulation::fp32)
    refuse("precision.accumulate = " + in_quotes(to_string(precision.accumulate)) +
               ", as sums in fp32 are compressed",
           "accumulate = \"fp32\"");
  if (precision.compute == models::Compute::fp64)
    refuse("precision.compute = \"fp64\", as sums in fp32 are compressed", "compute = \"fp32\"");
}

void check_local_steps(const Config& config, const StatedKeys& stated) {
  if (!config.dist.takes_outer_steps()) return;
  const std::string operation =
      where(stated, stated.contains("dist.local_steps") ? "dist.local_steps"
                    : config.dist.outer_lr              ? "dist.outer.lr"
                                                        : "dist.outer.momentum");
  if (config.precision.accumulate == accum::Accumulation::fixed)
    throw usage_error(operation,
                      "another precision.accumulate than \"fixed\", whose promise of the same bits "
                      "for any number of ranks does not hold where each steps alone",
                      "\"fixed\"", "accumulate = \"fp32\"");
  if (folds_gradients(config))
    throw usage_error(
        operation,
        "gradients in a buffer: a window that was folded and fails takes the run back "
        "to a checkpoint, which one rank cannot do alone",
        "gradients that are folded into the optimizer",
        "memory.gradients = \"buffer\" and an optimizer that goes with it");
}

/// distributed::require_valid() gives the reason.
void check_outer_parts(const Config& config, const StatedKeys& stated) {
  const DistConfig& dist = config.dist;
  if (dist.outer_parts + dist.outer_delay <= dist.local_steps) return;
  throw usage_error(where(stated, dist.outer_parts > 1 ? "dist.outer.parts" : "dist.outer.delay"),
                    "outer.parts + outer.delay of at most dist.local_steps (" +
                        std::to_string(dist.local_steps) +
                        "): each part is sent after a step of its own, and merged within the round",
                    std::to_string(dist.outer_parts) + " + " + std::to_string(dist.outer_delay),
                    "a larger local_steps, fewer parts or less delay");
}

void check_sharding(const Config& config, const StatedKeys& stated) {
  if (config.dist.shard == Shard::none) {
    if (config.dist.shard_replica == ShardReplica::none) return;
    throw usage_error(where(stated, "dist.shard_replica"),
                      "\"none\" with dist.shard = \"none\", where each rank has all of the "
                      "optimizer's state",
                      "\"next\"", "shard = \"optimizer\"");
  }
  const auto refuse = [&](const std::string& expected, const std::string& suggestion) {
    throw usage_error(where(stated, "dist.shard"), "\"none\" with " + expected,
                      in_quotes(to_string(config.dist.shard)), suggestion);
  };
  if (config.dist.takes_outer_steps())
    refuse("local steps, in which each rank needs all of its optimizer", "shard = \"none\"");
  if (config.dist.compress != distributed::Compression::none)
    refuse("dist.compress, whose sums all ranks have", "compress = \"none\"");
}

void check_stages(const Config& config, const StatedKeys& stated) {
  if (config.dist.stages == 1) return;
  const auto refuse = [&](const std::string& with, const std::string& suggestion) {
    throw usage_error(where(stated, "dist.stages"), "1 with " + with,
                      std::to_string(config.dist.stages), suggestion);
  };
  if (config.dist.takes_outer_steps())
    refuse("local steps, which each rank takes with a whole model", "local_steps = 1");
  if (folds_gradients(config))
    refuse("gradients that are folded into the optimizer, whose sums no stage could add",
           "memory.gradients = \"buffer\" and an optimizer that goes with it");
}

void check_dist(const Config& config, const StatedKeys& stated) {
  check_stages(config, stated);
  check_sharding(config, stated);
  check_graphs(config, stated);
  check_compression(config, stated);
  check_local_steps(config, stated);
  check_outer_parts(config, stated);
}

/// Throws if data cannot be the pairs that the loss needs.
void check_pairs(const Config& config, const StatedKeys& stated) {
  if (!models::is_of_pairs(config.loss.kind)) return;
  const std::optional<data::Format> format = config.data.format;
  if (!format || *format == data::Format::jsonl || *format == data::Format::chat ||
      *format == data::Format::parquet)
    return;
  throw usage_error(where(stated, "loss.kind"),
                    "lines of JSON with \"prompt\", \"chosen\" and \"rejected\" for " +
                        in_quotes(to_string(config.loss.kind)),
                    "data.format = " + in_quotes(to_string(*format)),
                    "data.format = \"jsonl\" or \"chat\", or loss.kind = \"lm\"");
}

std::string value_in_words(const std::string& name, const Config& config) {
  const std::optional<Value> value = find_key(name)->get(config);
  return name + (value ? " = " + to_toml(*value) : " not stated");
}

/// Whether the run in model.from is all that keeps the config from reading `key`.
bool is_fixed_by_run(const Key& key, const Config& config) {
  const std::string from = "model.from";
  return config.model.has_shape_of_run() && missing_reader(key, config) != nullptr &&
         std::ranges::all_of(key.read_by, [&](const Reader& reader) {
           return reader.decider == from || reader.holds(config);
         });
}

/// Throws if the model that decides which keys are read is not there: keys of its kind or shape are
/// then not the mistake.
void expect_deciding_model(const Config& config, const StatedKeys& stated,
                           const std::string& decider) {
  const bool is_decided_by_it =
      decider == "model.from" || (decider == "model.kind" && config.model.kind_is_auto);
  if (is_decided_by_it && leads_nowhere(config.model.from))
    throw no_model_there(where(stated, "model.from"),
                         "\"" + config.model.from + "\", which does not exist");
}

/// Throws for keys that the config does not read. The first one is named with its place and its
/// readers, and all that the same key decides about, since they are removed together.
void check_are_read(const Config& config, const StatedKeys& stated) {
  const Reader* first = nullptr;
  std::string first_name;
  std::vector<std::string> names;
  for (const auto& [name, place] : stated) {
    const Reader* const missing = missing_reader(*find_key(name), config);
    if (missing == nullptr || config.model.shape_beside_run.contains(name)) continue;
    if (first == nullptr) {
      first = missing;
      first_name = name;
    }
    if (missing->decider == first->decider) names.push_back(name);
  }
  if (first == nullptr) return;
  expect_deciding_model(config, stated, first->decider);
  const std::string reason = first->reason.empty() ? "" : " (" + first->reason + ")";
  throw usage_error(stated.at(first_name), first_name + " only with " + first->with + reason,
                    value_in_words(first->decider, config),
                    "removing " + listed(names, "and") + ", or " + first->with);
}

/// Throws if eps allows 0 / 0: a row of an embedding that no sample used has gradient 0 and moments
/// 0.
void check_eps(const Config& config, const std::string& place) {
  constexpr double kLeast = std::numeric_limits<float>::min();
  if (config.optim.eps >= kLeast) return;
  throw usage_error(place,
                    "at least " + to_toml(Value{kLeast}) +
                        ", as an update is divided by the root of a second moment plus eps, and "
                        "if no gradient came that is 0 / 0",
                    to_toml(Value{config.optim.eps}), "optim.eps = 1e-8");
}

}  // namespace

std::string where(const StatedKeys& stated, const std::string& key) {
  const auto at = stated.find(key);
  return at == stated.end() ? "config key " + key : at->second;
}

StatedKeys shape_beside_run(const Config& config, const StatedKeys& stated) {
  StatedKeys shape = stated;
  std::erase_if(shape,
                [&](const auto& each) { return !is_fixed_by_run(*find_key(each.first), config); });
  return shape;
}

void check_statements(const Config& config, const StatedKeys& stated) {
  check_are_read(config, stated);
  if (const auto eps = stated.find("optim.eps"); eps != stated.end())
    check_eps(config, eps->second);
  check_loss_terms(config, stated);
}

void check_together(const Config& config, const StatedKeys& stated, const std::string& origin) {
  check_exactly_one({"run.steps", "run.tokens", "run.epochs"}, stated, origin, "run.steps = 1000");
  check_exactly_one({"batch.tokens", "batch.samples", "batch.micro_batches"}, stated, origin,
                    "batch.tokens = 16384");
  check_batch_changes(config, stated);
  check_length(config, stated);
  check_data(config, stated, origin);
  check_model(config, stated);
  check_hiding(config, stated);
  check_pairs(config, stated);
  check_schedule(config, stated);
  check_loss_scale(config, stated);
  check_optimizer_memory(config, stated);
  check_accumulation_order(config, stated);
  check_dist(config, stated);
}

}  // namespace accrue::train
