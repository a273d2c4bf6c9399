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

/// A run, as its TOML file states it: one struct per section (lora in that of model), one member
/// per key, the defaults being those of docs/design.md section 5. Values that this version does not
/// have are refused while parsing.
struct RunConfig {
  std::string out;
  std::optional<std::int64_t> steps;  ///< exactly one of steps, tokens, epochs
  std::optional<std::int64_t> tokens;
  std::optional<double> epochs;
  std::uint64_t seed = 1337;
  std::optional<Device> device;                  ///< none: auto
  std::optional<kernels::Kernels> kernels = {};  ///< none: auto, as the process chose
  bool graphs = false;                           ///< a GPU repeats recorded micro-batches
  std::int64_t threads = 0;                      ///< 0: all that the cgroup grants
  Duration checkpoint_every{600, Duration::Unit::seconds};
  std::int64_t keep = 2;
  bool keep_best = true;
  std::string replica;  ///< a second folder that checkpoints are copied to; empty: none
  std::optional<Duration> eval_every;
  std::optional<std::int64_t> eval_batches;  ///< none: all of the validation data
  std::vector<Limit> limits;                 ///< what the machine asks of the run
};

/// Section lora.
struct LoraConfig {
  models::AdapterOptions adapters;
  /// A folder of PEFT's layout, whose adapters training goes on with; what they are replaces
  /// `adapters` when it is read, but for the dropout.
  std::string from;

  bool is_on() const { return adapters.any() || !from.empty(); }
};

struct ModelConfig {
  ModelKind kind = ModelKind::gpt2;
  /// Whether nobody stated the kind, so that it is what `from` holds, or gpt2.
  bool kind_is_auto = true;
  std::int64_t layers = 6;
  std::int64_t heads = 6;
  std::optional<std::int64_t> kv_heads;  ///< of keys and values; none: as many as `heads`
  std::int64_t width = 384;
  std::optional<models::Stem> stem;  ///< of a resnet; none: what its layers usually have
  /// None: what models::LlamaOptions calls usual; of a bert and a gpt2 (of which it is no key) four
  /// times the width.
  std::optional<std::int64_t> ffn_width;
  /// In tokens; for a vit in patches, a square number. None: context_or_default(), or what `from`
  /// has.
  std::optional<std::int64_t> context;
  std::optional<std::int64_t> vocab;  ///< none: the tokenizer's, or the number of images' classes
  /// Of a gpt2 or a bert; no keys: a folder or a checkpoint tells them. None: the usual ones.
  std::optional<double> norm_eps;
  std::optional<std::int64_t> token_types;
  double dropout = 0;
  /// What to start from: for gpt2, llama and bert a Hugging Face folder, for vit and resnet a
  /// safetensors file or a folder with a model.safetensors, for torchscript the module's file; for
  /// all but torchscript also a run folder, or a checkpoint in one.
  std::string from;
  std::vector<std::string> freeze;  ///< patterns of parameters that are not trained
  LoraConfig lora;
  models::BaseFormat base = models::BaseFormat::as_stored;
  models::BatchNormPolicy batchnorm = models::BatchNormPolicy::error;
  /// Only torchscript and custom models have it. A workload whose decision is made says on or off.
  Accelerate accelerate = Accelerate::automatic;
  /// Channels, height and width of an image model's input, and the names of its classes by their
  /// numbers. These are no keys: the data (or a checkpoint) tell them.
  std::vector<std::int64_t> image;
  std::vector<std::string> classes;
  /// The config.json that a llama's shape came from (models::LlamaOptions); no key: a folder or a
  /// checkpoint tells it.
  std::string config_json;
  /// Keys of the shape that are stated although `from` is a run, which fixes it, each with the
  /// words that name its place in errors. They have to agree with the run; no key of their own.
  std::map<std::string, std::string> shape_beside_run;

  std::int64_t context_or_default() const {
    return context.value_or(kind == ModelKind::vit ? 16 : 256);
  }
  models::Stem stem_or_usual() const { return stem.value_or(models::usual_stem(layers)); }
  /// Whether the model takes its shape from the folder `from` (a language model perhaps with a
  /// shorter context): gpt2, llama and bert do from any folder, other kinds from a run's or a
  /// checkpoint's. Looks into the folder.
  bool has_shape_of_folder() const;
  /// Whether that folder is a run's, or a checkpoint's, of a model of accrue's own.
  bool has_shape_of_run() const;
};

/// "3 x 32 x 32": channels, height and width, all three of which `image` must have.
std::string image_in_words(const std::vector<std::int64_t>& image);

struct DataConfig {
  std::vector<std::string> train;
  /// Of each pattern of `train`, which is then a source of its own, drawn from by its weight
  /// (batch::Sampler); empty: the files of all patterns are joined.
  std::vector<double> weights;
  std::vector<std::string> val;
  std::vector<std::string> exclude;  ///< files of train and val that are not to be used
  double val_fraction = 0;
  std::optional<data::Format> format;           ///< none: auto
  std::string tokenizer{data::kAutoTokenizer};  ///< or bytes, or a path
  batch::Order order = batch::Order::shuffle;
  bool packing = false;  ///< several samples a row
  /// Fields of JSON lines that become tensors by name (data::SourceOptions::columns); empty: lines
  /// are samples of tokens.
  std::vector<std::string> columns;
  /// What images are brought to: height and width; empty: auto (data::open_source).
  std::vector<std::int64_t> image;
  data::Augment augment;           ///< of training images
  std::vector<std::string> masks;  ///< patterns of the masks of images, those of val among them
};

/// The batch from a place in the run on.
struct BatchStage {
  Duration at;            ///< completed steps, or tokens, epochs, percent of the run
  std::int64_t size = 0;  ///< in the batch's unit
};

struct BatchConfig {
  /// Exactly one of tokens, samples, micro_batches; with a `schedule` that begins at 0, its first.
  std::optional<std::int64_t> tokens;
  std::optional<std::int64_t> samples;
  std::optional<std::int64_t> micro_batches;  ///< per rank, with `micro`: see with_whole_batch()
  std::vector<BatchStage> schedule;           ///< in order; empty: the batch stays as it is
  BatchUnit schedule_unit = BatchUnit::tokens;
  std::optional<std::int64_t> ramp_from;  ///< set: it grows to what is stated, in the same unit
  std::optional<Duration> ramp_over;
  RampShape ramp_by = RampShape::linear;
  std::optional<std::int64_t> micro;  ///< none: auto
  /// No key: `samples` came of micro_batches (with_whole_batch), so that `micro` does not change
  /// alone.
  bool came_of_micro_batches = false;
  batch::LastWindow last = batch::LastWindow::weighted;
  /// This fraction of a window's micro-batches may be quarantined for what is not finite, and of
  /// its samples for what cannot be read.
  double max_quarantined = 0.1;

  bool changes_as_stated() const { return !schedule.empty() || ramp_from.has_value(); }
  BatchUnit unit() const;  ///< of the batch that is stated
};

struct PrecisionConfig {
  models::Compute compute = models::Compute::fp32;
  /// What losses of fp16 are multiplied with, a power of two; none: follows overflows.
  std::optional<std::int64_t> loss_scale;
  accum::Accumulation accumulate = accum::Accumulation::fp32;
};

struct MemoryConfig {
  std::string budget = "none";  ///< none, auto, or bytes ("6GiB")
  /// A file whose content ("4GiB") is the budget from when it changes; empty: none.
  std::string budget_file;
  std::optional<Recompute> recompute;  ///< none: auto
  /// `optimizer` is for sgd; adama always has it.
  GradientPlace gradients = GradientPlace::buffer;

  bool has_budget() const { return budget != "none"; }
  /// Whether the budget is what the machine has.
  bool budget_is_auto() const { return budget == "auto"; }
};

struct LossConfig {
  models::LossKind kind = models::LossKind::lm;
  double beta = 0.1;            ///< of pairs
  double mask_fraction = 0.15;  ///< of mlm: how many of the tokens are to be predicted
  /// The id that hides a token of mlm; none stands for the tokenizer's, or of bytes for one of its
  /// own.
  std::optional<std::int64_t> mask_token;
  CrossEntropy cross_entropy = CrossEntropy::fused;
  double label_smoothing = 0;
  double z_loss = 0;
  /// The losses of a TorchScript module; if there are none, it has one, of its output against
  /// the labels.
  std::vector<models::ScriptLoss> heads;
  /// The method of a TorchScript module that returns its losses as sums and weights; empty if
  /// none does.
  std::string method;
};

struct ScheduleConfig {
  optim::ScheduleKind kind = optim::ScheduleKind::cosine;
  Duration warmup{0, Duration::Unit::steps};
  double min_lr = 0;
  /// No key: a run that goes on, or is repeated, keeps what it began with.
  optim::ScheduleVersion version = optim::ScheduleVersion::min_after_last_step;
};

/// A learning rate of its own for the parameters that a pattern matches.
struct RateOfPattern {
  std::string match;
  double lr = 0;
};

struct OptimConfig {
  OptimizerKind kind = OptimizerKind::adamw;
  double lr = 3e-4;
  /// A parameter takes the first that matches, and `lr` if none does.
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
  std::optional<Backend> backend;  ///< none: auto, NCCL where this build has it
  Reduce reduce = Reduce::overlap;
  Shares shares = Shares::speed;
  Shard shard = Shard::none;
  ShardReplica shard_replica = ShardReplica::none;
  distributed::Compression compress = distributed::Compression::none;
  std::int64_t local_steps = 1;  ///< optimizer steps that a rank takes alone per outer step
  /// The outer step's rate and momentum; none: 1 and 0 if the other is stated, else by the
  /// length of a round (distributed::usual_outer_rates).
  std::optional<double> outer_lr, outer_momentum;
  std::int64_t outer_parts = 1;  ///< parts of the parameters, exchanged one after the other
  std::int64_t outer_delay = 0;  ///< inner steps between sending a part and merging it
  std::int64_t stages = 1;       ///< > 1: ranks are the stages of a pipeline
  std::int64_t min_ranks = 1;    ///< the fewest that go on when others are gone
  Duration timeout{300, Duration::Unit::seconds};

  /// Whether ranks step alone and meet in outer steps; else gradients are summed for each step.
  bool takes_outer_steps() const { return local_steps > 1 || outer_lr || outer_momentum; }
};

struct ObserveConfig {
  bool jsonl = true;
  bool tensorboard = true;
  std::optional<Duration> histograms;              ///< how often TensorBoard gets them; none: never
  std::optional<observe::ProgressStyle> progress;  ///< none: auto
  NoiseDetail noise = NoiseDetail::total;          ///< what is measured of the gradient's noise
};

struct AdaptConfig {
  adapt::BatchRule batch = adapt::BatchRule::fixed;
  std::optional<std::int64_t> min, max;  ///< in the batch's unit; none: a quarter, 16 times of it
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
  /// What a program brings where model.kind is "custom"; no key.
  std::shared_ptr<const Custom> custom = nullptr;
};

/// Reads a config file and applies `overrides`, each "section.key=value" with the value as TOML
/// (a bare word is taken as a string). If keys exclude each other (run.steps, run.tokens,
/// run.epochs; batch.tokens, batch.samples, batch.micro_batches; data.val, data.val_fraction) an
/// override of one replaces the file's. Throws a usage Error that names the key: unknown (with the
/// nearest known one, where one is near), of the wrong type or out of range, another system's name
/// (with its translation), a key or value that is not in this version, or a key that is stated and
/// that the chosen kinds do not read (optim.momentum with adamw), with the kinds that do. The file
/// of a run folder (config.toml beside run.json) may state what is not read, as earlier versions
/// wrote every key there.
Config load_config(const std::filesystem::path& file,
                   const std::vector<std::string>& overrides = {});
/// A key of other systems: who has it ("Hugging Face and axolotl"), and what to state here.
struct ForeignKey {
  std::string users;
  std::string advice;
};
/// Finds "fp16" or "train.max-grad-norm", stated with the text `value` or without a value. Nothing
/// if no other system has it.
std::optional<ForeignKey> foreign_key(const std::string& name,
                                      const std::optional<std::string>& value = {});

/// Whose words a config is: a run's may state keys that are not read.
enum class ConfigOrigin { user, run };
/// Parses a config from text, which errors call `origin`.
Config parse_config(const std::string& toml, const std::string& origin,
                    const std::vector<std::string>& overrides = {},
                    ConfigOrigin kind = ConfigOrigin::user);

/// How many of `ranks` each run a share of every batch: all, or 1 where they are the stages of a
/// pipeline, which run each micro-batch together.
std::int64_t ranks_that_share(const Config& config, std::int64_t ranks);

/// `config` with batch.samples in place of batch.micro_batches: that many micro-batches of
/// batch.micro samples on each of ranks_that_share(). What works on a config calls it; what states
/// its batch otherwise stays as it is. Throws a usage Error if batch.micro is auto, or the batch
/// is beyond what one may be; `where` names the key in it.
Config with_whole_batch(Config config, std::int64_t ranks,
                        const std::string& where = "config key batch.micro_batches");

/// How to state another micro-batch of the same batch, for messages: "batch.micro = `value`", with
/// the samples of the batch where they came of its micro-batches.
std::string micro_batch_advice(const Config& config, const std::string& value);

/// The config as TOML with every value stated that it reads: what a run directory keeps.
/// parse_config reads it back to an equal Config.
std::string to_toml(const Config& config);

/// A key that differs, as "section.key", with both values printed; "not stated" if it is not
/// read.
struct ConfigDifference {
  std::string key;
  std::string before;
  std::string after;
};
std::vector<ConfigDifference> differences(const Config& before, const Config& after);

/// Whether a key may change when a run is resumed. The run's length (run.steps, run.tokens,
/// run.epochs) may, which is the horizon of the schedule: the steps to come go by the new one. The
/// others do not change the mathematics of the steps: run.out, run.threads, run.checkpoint_every,
/// run.keep, run.keep_best, run.replica, run.eval_every, run.eval_batches, run.limits,
/// memory.budget, memory.budget_file, memory.recompute, dist.backend, dist.reduce, dist.shares,
/// dist.shard, dist.stages, dist.timeout, batch.max_quarantined, data.exclude, data.image (which
/// has to come to the same size: load_checkpoint) and observe.*.
bool may_change_on_resume(const std::string& key);
/// Whether the batch of a run of this config may be changed by hand as the run is resumed
/// (RunOptions::may_change_batch): it stays as it is stated, and its windows are planned one by
/// one, which those of exact batch normalisation are not.
bool batch_may_change(const Config& config);

}  // namespace accrue::train
