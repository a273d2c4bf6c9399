#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "accrue/accum/accumulation.h"
#include "accrue/adapt/batch_controller.h"
#include "accrue/batch/order.h"
#include "accrue/core/recompute.h"
#include "accrue/core/units.h"
#include "accrue/data/augment.h"
#include "accrue/data/format.h"
#include "accrue/distributed/compression.h"
#include "accrue/kernels/kernel_kind.h"
#include "accrue/models/adapter_options.h"
#include "accrue/models/base_format.h"
#include "accrue/models/batch_norm_policy.h"
#include "accrue/models/compute.h"
#include "accrue/models/loss_options.h"
#include "accrue/models/resnet_shape.h"
#include "accrue/models/script_loss.h"
#include "accrue/observe/progress_style.h"
#include "accrue/optim/schedule.h"
#include "accrue/optim/state_precision.h"
#include "accrue/train/choices.h"
#include "accrue/train/limit.h"

namespace accrue::train {

/// A run, as stated in its TOML file: one struct per section (lora is in that of model), one member
/// per key, with the defaults of docs/design.md section 5. Values that this version does not
/// support are refused while parsing.
struct RunConfig {
  std::string out;
  std::optional<std::int64_t> steps;  ///< exactly one of steps, tokens, epochs
  std::optional<std::int64_t> tokens;
  std::optional<double> epochs;
  std::uint64_t seed = 1337;
  std::optional<Device> device;                  ///< not set: auto
  std::optional<kernels::Kernels> kernels = {};  ///< not set: auto, as the process selected
  bool graphs = false;                           ///< a GPU repeats recorded micro-batches
  std::int64_t threads = 0;                      ///< 0: all that the cgroup allows
  Duration checkpoint_every{600, Duration::Unit::seconds};
  std::int64_t keep = 2;
  bool keep_best = true;
  std::string replica;  ///< a second folder to which checkpoints are copied; empty: none
  std::optional<Duration> eval_every;
  std::optional<std::int64_t> eval_batches;  ///< not set: all of the validation data
  std::vector<Limit> limits;                 ///< limits that the machine sets for the run
};

/// The section lora.
struct LoraConfig {
  models::AdapterOptions adapters;
  /// A PEFT folder whose adapters are trained further; their properties replace `adapters` when it
  /// is read, except the dropout.
  std::string from;

  bool is_on() const { return adapters.any() || !from.empty(); }
};

struct ModelConfig {
  ModelKind kind = ModelKind::gpt2;
  /// Whether the kind was not stated: it is then that of `from`, or gpt2.
  bool kind_is_auto = true;
  std::int64_t layers = 6;
  std::int64_t heads = 6;
  std::optional<std::int64_t> kv_heads;  ///< of keys and values; not set: as many as `heads`
  std::int64_t width = 384;
  std::optional<models::Stem> stem;  ///< of a resnet; not set: the usual one for its layers
  /// Not set: the default of models::LlamaOptions; four times the width for a bert and a gpt2 (for
  /// which it is not a key).
  std::optional<std::int64_t> ffn_width;
  /// In tokens; for a vit in patches, a square number. Not set: context_or_default(), or that of
  /// `from`.
  std::optional<std::int64_t> context;
  std::optional<std::int64_t> vocab;  ///< not set: the tokenizer's, or the number of image classes
  /// Of a gpt2 or a bert. Not keys: a folder or a checkpoint sets them. Not set: the defaults.
  std::optional<double> norm_eps;
  std::optional<std::int64_t> token_types;
  double dropout = 0;
  /// The initial model: a Hugging Face folder for gpt2, llama and bert; a safetensors file or a
  /// folder with model.safetensors for vit and resnet; the module's file for torchscript. For all
  /// kinds except torchscript also a run folder, or a checkpoint in one.
  std::string from;
  std::vector<std::string> freeze;  ///< patterns of parameters that are not trained
  LoraConfig lora;
  models::BaseFormat base = models::BaseFormat::as_stored;
  models::BatchNormPolicy batchnorm = models::BatchNormPolicy::error;
  /// Only for torchscript and custom models. In a workload the choice is already on or off.
  Accelerate accelerate = Accelerate::automatic;
  /// Channels, height and width of an image model's input, and the names of its classes in the
  /// order of their numbers. Not keys: the data (or a checkpoint) set them.
  std::vector<std::int64_t> image;
  std::vector<std::string> classes;
  /// The config.json of a llama's shape (models::LlamaOptions). Not a key: a folder or a checkpoint
  /// sets it.
  std::string config_json;
  /// Keys of the shape that are stated although `from` is a run, which fixes it, each with the
  /// words that name its place in errors. They have to agree with the run; no key of their own.
  std::map<std::string, std::string> shape_beside_run;

  std::int64_t context_or_default() const {
    return context.value_or(kind == ModelKind::vit ? 16 : 256);
  }
  models::Stem stem_or_usual() const { return stem.value_or(models::usual_stem(layers)); }
  /// Whether the model has the shape of the folder `from` (a language model possibly with a shorter
  /// context): gpt2, llama and bert from any folder, other kinds from a run or a checkpoint. Reads
  /// the folder.
  bool has_shape_of_folder() const;
  /// Whether that folder is a run's, or a checkpoint's, of a model of accrue's own.
  bool has_shape_of_run() const;
};

/// "3 x 32 x 32": channels, height and width; `image` must have three elements.
std::string image_in_words(const std::vector<std::int64_t>& image);

struct DataConfig {
  std::vector<std::string> train;
  /// The weight of each pattern of `train`, which is then a separate source (batch::Sampler);
  /// empty: the files of all patterns are joined.
  std::vector<double> weights;
  std::vector<std::string> val;
  std::vector<std::string> exclude;  ///< files of train and val to exclude
  double val_fraction = 0;
  std::optional<data::Format> format;           ///< not set: auto
  std::string tokenizer{data::kAutoTokenizer};  ///< or bytes, or a path
  batch::Order order = batch::Order::shuffle;
  bool packing = false;  ///< several samples per row
  /// Fields of JSON lines that become tensors by name (data::SourceOptions::columns); empty: lines
  /// are samples of tokens.
  std::vector<std::string> columns;
  /// The target size of images: height and width; empty: auto (data::open_source).
  std::vector<std::int64_t> image;
  data::Augment augment;           ///< of training images
  std::vector<std::string> masks;  ///< patterns of the masks of images, including those of val
};

/// The batch from a position in the run on.
struct BatchStage {
  Duration at;            ///< completed steps, or tokens, epochs, percent of the run
  std::int64_t size = 0;  ///< in the unit of the batch
};

struct BatchConfig {
  /// Exactly one of tokens, samples, micro_batches; the first stage of a `schedule` from 0.
  std::optional<std::int64_t> tokens;
  std::optional<std::int64_t> samples;
  std::optional<std::int64_t> micro_batches;  ///< per rank, with `micro`: see with_whole_batch()
  std::vector<BatchStage> schedule;           ///< in order; empty: the batch is constant
  BatchUnit schedule_unit = BatchUnit::tokens;
  std::optional<std::int64_t> ramp_from;  ///< set: grows to the stated size, same unit
  std::optional<Duration> ramp_over;
  RampShape ramp_by = RampShape::linear;
  std::optional<std::int64_t> micro;  ///< not set: auto
  /// Not a key: `samples` was computed from micro_batches (with_whole_batch), so `micro` must not
  /// change alone.
  bool came_of_micro_batches = false;
  batch::LastWindow last = batch::LastWindow::weighted;
  /// The fraction of a window's micro-batches that may be quarantined because values are not
  /// finite, and of its samples because they cannot be read.
  double max_quarantined = 0.1;

  bool changes_as_stated() const { return !schedule.empty() || ramp_from.has_value(); }
  BatchUnit unit() const;  ///< of the stated batch
};

struct PrecisionConfig {
  models::Compute compute = models::Compute::fp32;
  /// The factor of fp16 losses, a power of two; not set: it follows overflows.
  std::optional<std::int64_t> loss_scale;
  accum::Accumulation accumulate = accum::Accumulation::fp32;
};

struct MemoryConfig {
  std::string budget = "none";  ///< none, auto, or bytes ("6GiB")
  /// A file whose content ("4GiB") becomes the budget when it changes; empty: none.
  std::string budget_file;
  std::optional<Recompute> recompute;  ///< not set: auto
  /// `optimizer` is for sgd; adama always uses it.
  GradientPlace gradients = GradientPlace::buffer;
  AccumulationOrder accumulation = AccumulationOrder::automatic;
  /// A folder for a file with parameters, sums of gradients and optimizer state; empty: in memory;
  /// "auto": in memory if they fit, else in a file beside run.out.
  std::string offload;
  std::string offload_budget = "none";  ///< the most that the file takes: none, or bytes ("40GiB")

  bool has_budget() const { return budget != "none"; }
  bool has_offload_budget() const { return offload_budget != "none"; }
  /// Whether the budget is determined by the machine.
  bool budget_is_auto() const { return budget == "auto"; }
  /// Whether it is decided when training begins where the state lies. Until then it does not count
  /// as offloaded.
  bool offload_is_auto() const { return offload == "auto"; }
  /// Whether the state lies in a file.
  bool offloads() const { return !offload.empty() && !offload_is_auto(); }
};

struct LossConfig {
  models::LossKind kind = models::LossKind::lm;
  double beta = 0.1;            ///< of pairs
  double mask_fraction = 0.15;  ///< of mlm: the fraction of tokens to predict
  /// The id that masks a token for mlm; not set: the tokenizer's, or an additional id for
  /// bytes.
  std::optional<std::int64_t> mask_token;
  CrossEntropy cross_entropy = CrossEntropy::fused;
  double label_smoothing = 0;
  double z_loss = 0;
  /// The losses of a TorchScript module; empty: one loss, of its output against the
  /// labels.
  std::vector<models::ScriptLoss> heads;
  /// The method of a TorchScript module that returns its losses as sums and weights; empty if there
  /// is none.
  std::string method;
};

struct ScheduleConfig {
  optim::ScheduleKind kind = optim::ScheduleKind::cosine;
  Duration warmup{0, Duration::Unit::steps};
  double min_lr = 0;
  /// Not a key: a run that is resumed or repeated keeps its original version.
  optim::ScheduleVersion version = optim::ScheduleVersion::min_after_last_step;
};

/// A separate learning rate for the parameters that match a pattern.
struct RateOfPattern {
  std::string match;
  double lr = 0;
};

struct OptimConfig {
  OptimizerKind kind = OptimizerKind::adamw;
  double lr = 3e-4;
  /// A parameter takes the first that matches, and `lr` if none matches.
  std::vector<RateOfPattern> rates;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  Decay decay = Decay::matrices;
  double momentum = 0.9;
  double clip = 1.0;  ///< 0: off
  OnDivergence on_divergence = OnDivergence::warn;
  optim::StatePrecision state = optim::StatePrecision::fp32;
  ScheduleConfig schedule;
  optim::ScaleRule scale_lr = optim::ScaleRule::none;
  std::optional<std::int64_t> base_batch;  ///< in the unit of the batch (tokens or samples)
};

struct DistConfig {
  std::optional<Backend> backend;  ///< not set: auto, NCCL if this build has it
  Reduce reduce = Reduce::overlap;
  Shares shares = Shares::speed;
  Shard shard = Shard::none;
  ShardReplica shard_replica = ShardReplica::none;
  distributed::Compression compress = distributed::Compression::none;
  std::int64_t local_steps = 1;  ///< optimizer steps that a rank takes alone per outer step
  /// The rate and momentum of the outer step; not set: 1 and 0 if the other is set, otherwise by
  /// the length of a round (distributed::usual_outer_rates).
  std::optional<double> outer_lr, outer_momentum;
  std::int64_t outer_parts = 1;  ///< parts of the parameters, exchanged one after the other
  std::int64_t outer_delay = 0;  ///< inner steps between sending a part and merging it
  std::int64_t stages = 1;       ///< > 1: ranks are the stages of a pipeline
  std::int64_t min_ranks = 1;    ///< the fewest with which the run continues after others are gone
  Duration timeout{300, Duration::Unit::seconds};

  /// Whether ranks step alone and take outer steps, instead of summing gradients in each step.
  bool takes_outer_steps() const { return local_steps > 1 || outer_lr || outer_momentum; }
};

struct ObserveConfig {
  bool jsonl = true;
  bool tensorboard = true;
  std::optional<Duration> histograms;              ///< interval in TensorBoard; not set: never
  std::optional<observe::ProgressStyle> progress;  ///< not set: auto
  NoiseDetail noise = NoiseDetail::total;          ///< which gradient noise is measured
};

struct AdaptConfig {
  adapt::BatchRule batch = adapt::BatchRule::fixed;
  std::optional<std::int64_t> min, max;  ///< in the batch's unit; not set: batch / 4, 16 * batch
  NoiseGeometry geometry = NoiseGeometry::optimizer;
  adapt::RateRule lr_rule = adapt::RateRule::none;

  bool is_on() const { return batch != adapt::BatchRule::fixed; }
};

struct Custom;

struct Config {
  RunConfig run;
  ModelConfig model;
  DataConfig data;
  BatchConfig batch;
  PrecisionConfig precision;
  MemoryConfig memory;
  LossConfig loss;
  OptimConfig optim;
  DistConfig dist;
  AdaptConfig adapt;
  ObserveConfig observe;
  /// The program's model and data if model.kind is "custom"; not a key.
  std::shared_ptr<const Custom> custom = nullptr;
};

/// Reads a config file and applies `overrides`, each "section.key=value" with the value as TOML
/// (a bare word is a string). If keys exclude each other (run.steps, run.tokens, run.epochs;
/// batch.tokens, batch.samples, batch.micro_batches; data.val, data.val_fraction), an override
/// of one replaces the file's. Throws a usage Error that names the key if it is unknown
/// (suggesting a similar one, if there is one), of the wrong type or out of range, another
/// system's name (with its translation), not supported in this version, or not used by the
/// selected kinds (optim.momentum with adamw; naming the kinds that do). The file of a run
/// folder (config.toml next to run.json) may state unused keys, because earlier versions wrote
/// every key.
Config load_config(const std::filesystem::path& file,
                   const std::vector<std::string>& overrides = {});
/// A key of other systems: its users ("Hugging Face and axolotl"), and accrue's equivalent.
struct ForeignKey {
  std::string users;
  std::string advice;
};
/// Looks up "fp16" or "train.max-grad-norm", stated with the text `value` or without a value.
/// Returns nothing if no other system has the key.
std::optional<ForeignKey> foreign_key(const std::string& name,
                                      const std::optional<std::string>& value = {});

/// The author of a config: that of a run may state unused keys.
enum class ConfigOrigin { user, run };
/// Parses a config from text. `origin` names the text in errors.
Config parse_config(const std::string& toml, const std::string& origin,
                    const std::vector<std::string>& overrides = {},
                    ConfigOrigin kind = ConfigOrigin::user);

/// How many of `ranks` run a share of every batch: all, or 1 if they are the stages of a pipeline,
/// which run each micro-batch together.
std::int64_t ranks_that_share(const Config& config, std::int64_t ranks);

/// Returns `config` with batch.samples instead of batch.micro_batches: that many micro-batches of
/// batch.micro samples on each of ranks_that_share(). Call it before working with a config; a batch
/// in another unit does not change. Throws a usage Error, with `where` as the key's name, if
/// batch.micro is auto, or the batch is too large.
Config with_whole_batch(Config config, std::int64_t ranks,
                        const std::string& where = "config key batch.micro_batches");

/// How to state another micro-batch for the same batch, for messages: "batch.micro = `value`", with
/// the samples of the batch if they were computed from its micro-batches.
std::string micro_batch_advice(const Config& config, const std::string& value);

/// The config as TOML with the values of all keys that it uses, for the run directory. parse_config
/// reads it back to an equal Config.
std::string to_toml(const Config& config);

/// A key that differs, as "section.key", with both values as text; "not stated" if it is not
/// used.
struct ConfigDifference {
  std::string key;
  std::string before;
  std::string after;
};
std::vector<ConfigDifference> differences(const Config& before, const Config& after);

/// Whether a key may change when a run is resumed. The run's length may (run.steps, run.tokens,
/// run.epochs); it is the horizon of the schedule, and later steps follow the new one. The others
/// do not change the mathematics of the steps: run.out, run.threads, run.checkpoint_every,
/// run.keep, run.keep_best, run.replica, run.eval_every, run.eval_batches, run.limits,
/// memory.budget, memory.budget_file, memory.recompute, memory.offload, memory.offload_budget,
/// dist.backend, dist.reduce, dist.shares, dist.shard, dist.stages, dist.timeout,
/// batch.max_quarantined, data.exclude, data.image (which must result in the same size:
/// load_checkpoint) and observe.*.
bool may_change_on_resume(const std::string& key);
/// Whether the batch of a run of this config may be changed by hand as the run is resumed
/// (RunOptions::may_change_batch): it stays as it is stated, and its windows are planned one by
/// one, which those in layered order are not.
bool batch_may_change(const Config& config);

}  // namespace accrue::train
