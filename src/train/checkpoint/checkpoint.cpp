#include "train/checkpoint/checkpoint.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "accrue/core/error.h"
#include "accrue/memory/offload.h"
#include "accrue/memory/offload_passes.h"
#include "accrue/models/safetensors.h"
#include "core/atomic_file.h"
#include "core/checksum.h"
#include "kernels/finite.h"
#include "train/checkpoint/checkpoint_folders.h"
#include "train/checkpoint/manifest.h"
#include "train/checkpoint/state_reader.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* model_file = "model.safetensors";
constexpr const char* optimizer_file = "optimizer.safetensors";
constexpr const char* ranks_file = "ranks.safetensors";
constexpr const char* window_file = "window.safetensors";
constexpr const char* state_file = "state.json";

json adapters_to_json(const models::AdapterOptions& adapters) {
  return {{"rank", adapters.rank},
          {"alpha", adapters.alpha_or_usual()},
          {"dropout", adapters.dropout},
          {"targets", adapters.targets},
          {"kind", to_string(adapters.kind)},
          {"rs", adapters.rank_stabilised}};
}

models::AdapterOptions adapters_from_json(const json& in) {
  return {.rank = in.at("rank").get<std::int64_t>(),
          .alpha = in.at("alpha").get<double>(),
          .dropout = in.at("dropout").get<double>(),
          .targets = in.at("targets").get<std::vector<std::string>>(),
          .kind = models::adapter_kind_words.parse(in.at("kind").get<std::string>(),
                                                   "model.lora.kind in state.json",
                                                   "an earlier checkpoint of the run"),
          .rank_stabilised = in.at("rs").get<bool>()};
}

json shape_to_json(const ModelConfig& shape) {
  json out{{"kind", to_string(shape.kind)}, {"layers", shape.layers},    {"heads", shape.heads},
           {"width", shape.width},          {"context", *shape.context}, {"vocab", *shape.vocab}};
  if (shape.kind == ModelKind::resnet) out["stem"] = to_string(shape.stem_or_usual());
  if (shape.kv_heads) out["kv_heads"] = *shape.kv_heads;
  if (shape.ffn_width) out["ffn_width"] = *shape.ffn_width;
  if (shape.norm_eps) out["norm_eps"] = *shape.norm_eps;
  if (shape.token_types) out["token_types"] = *shape.token_types;
  if (!shape.config_json.empty()) out["config"] = shape.config_json;
  if (shape.lora.adapters.any()) {
    out["lora"] = adapters_to_json(shape.lora.adapters);
    out["base"] = to_string(shape.base);
  }
  if (!shape.image.empty()) out["image"] = shape.image;
  if (!shape.classes.empty()) out["classes"] = shape.classes;
  return out;
}

ModelConfig shape_from_json(const json& in) {
  ModelConfig shape;
  shape.kind = model_kind_words.parse(in.at("kind").get<std::string>(), "model.kind in state.json",
                                      "an earlier checkpoint of the run");
  in.at("layers").get_to(shape.layers);
  in.at("heads").get_to(shape.heads);
  in.at("width").get_to(shape.width);
  shape.context = in.at("context").get<std::int64_t>();
  shape.vocab = in.at("vocab").get<std::int64_t>();
  if (shape.kind == ModelKind::resnet)  // earlier versions had one stem
    shape.stem =
        models::stem_words.parse(in.value("stem", std::string(to_string(models::Stem::conv3x3))),
                                 "model.stem in state.json", "an earlier checkpoint of the run");
  if (in.contains("kv_heads")) shape.kv_heads = in["kv_heads"].get<std::int64_t>();
  if (in.contains("ffn_width")) shape.ffn_width = in["ffn_width"].get<std::int64_t>();
  if (in.contains("norm_eps")) shape.norm_eps = in["norm_eps"].get<double>();
  if (in.contains("token_types")) shape.token_types = in["token_types"].get<std::int64_t>();
  if (in.contains("config")) in["config"].get_to(shape.config_json);
  if (in.contains("lora")) shape.lora.adapters = adapters_from_json(in["lora"]);
  if (in.contains("base"))
    shape.base =
        models::base_format_words.parse(in["base"].get<std::string>(), "model.base in state.json",
                                        "an earlier checkpoint of the run");
  if (in.contains("image")) in["image"].get_to(shape.image);
  if (in.contains("classes")) in["classes"].get_to(shape.classes);
  return shape;
}

json metrics_to_json(const observe::MetricsRecord& metrics) {
  json steps = json::array();
  for (const auto& [first, last] : metrics.steps.ranges()) {
    steps.push_back(first);
    steps.push_back(last);
  }
  return {{"lines", metrics.lines}, {"digest", metrics.digest}, {"steps", std::move(steps)}};
}

std::optional<observe::MetricsRecord> metrics_from_json(const StateReader& state) {
  if (!state.has("metrics")) return std::nullopt;
  const StateReader in = state.object("metrics");
  const std::vector<std::int64_t> steps = in.integers("steps", 0);
  std::vector<observe::StepRanges::Range> ranges;
  for (std::size_t i = 0; i + 1 < steps.size(); i += 2) ranges.push_back({steps[i], steps[i + 1]});
  if (steps.size() % 2 != 0 || !std::ranges::is_sorted(steps))
    throw in.wrong("steps", "the first and the last step of each range, in order",
                   in.array("steps"));
  return observe::MetricsRecord{.lines = in.integer("lines", 0),
                                .digest = in.text("digest"),
                                .steps = observe::StepRanges(ranges)};
}

/// The equivalent of a manifest for a checkpoint from before there were manifests: the lengths in
/// state.json.
Manifest lengths_in(const json& state) {
  Manifest manifest{.step = state.value("step", std::int64_t{-1}), .files = {}};
  for (const auto& [name, bytes] : state.at("files").items())
    manifest.files[name].bytes = bytes.get<std::int64_t>();
  return manifest;
}

/// The metadata of a checkpoint, without its tensors.
struct Bookkeeping {
  Manifest manifest;
  bool has_checksums = false;
  TrainState state;
  ModelConfig shape;
  std::optional<observe::MetricsRecord> metrics;
};

/// The middle of a window needs its sums.
void check_window(const fs::path& checkpoint, const Bookkeeping& found) {
  const auto& middle = found.state.middle;
  if (middle && !middle->contributions.empty() && !found.manifest.files.contains(window_file))
    throw not_whole(checkpoint, std::string(window_file) + " beside a window's middle", "none");
}

void check_step(const fs::path& checkpoint, const Bookkeeping& found) {
  if (found.state.step != found.manifest.step)
    throw not_whole(checkpoint, "files of one step",
                    "a state.json of step " + std::to_string(found.state.step) +
                        " beside a manifest of step " + std::to_string(found.manifest.step));
  const auto named = step_of_folder(checkpoint);
  if (named && *named != found.state.step)
    throw not_whole(checkpoint, "a checkpoint of step " + std::to_string(*named),
                    "one of step " + std::to_string(found.state.step));
}

Bookkeeping read_bookkeeping(const fs::path& checkpoint) {
  const std::optional<Manifest> manifest = read_manifest(checkpoint);
  const std::string content = read_file(checkpoint / state_file);
  if (manifest) check_content(checkpoint, *manifest, state_file, content);
  try {
    const json state = json::parse(content);
    const std::string reading = "read checkpoint " + checkpoint.string();
    if (!manifest && !state.contains("files"))
      throw not_whole(checkpoint, "a manifest.json", "none");
    Bookkeeping found{.manifest = manifest ? *manifest : lengths_in(state),
                      .has_checksums = manifest.has_value(),
                      .state = train_state_from_json(state, reading),
                      .shape = shape_from_json(state.at("model")),
                      .metrics = metrics_from_json({state, "", reading})};
    found.state.data.image = found.shape.image;
    check_step(checkpoint, found);
    check_window(checkpoint, found);
    check_lengths(checkpoint, found.manifest);
    return found;
  } catch (const json::exception& error) {
    throw not_whole(checkpoint, "a state.json as it was written", error.what());
  }
}

/// Returns `tensors`, with copies of those that share memory with one of `changing`.
NamedParameters with_copies_of(const NamedParameters& changing, NamedParameters tensors) {
  const at::NoGradGuard no_grad;
  for (NamedParameter& kept : tensors)
    if (std::any_of(changing.begin(), changing.end(), [&](const NamedParameter& buffer) {
          return buffer.tensor.defined() && buffer.tensor.is_alias_of(kept.tensor);
        }))
      kept.tensor = kept.tensor.clone();
  return tensors;
}

bool may_be_infinite(at::ScalarType dtype) {
  return c10::isFloatingType(dtype) || c10::isComplexType(dtype);
}

/// No run can continue from a NaN. A foreign module may keep infinities in its buffers, so only its
/// trained tensors are checked.
void expect_finite(const CheckpointContent& content) {
  const bool is_own = !is_foreign(content.shape.kind);
  for (const auto& [name, tensor] : content.model) {
    if (!(is_own || tensor.requires_grad()) || !may_be_infinite(tensor.scalar_type())) continue;
    memory::keep_only(tensor);
    if (kernels::all_finite(tensor)) continue;
    const std::string step = std::to_string(content.state.step);
    throw ModelNotFinite(Error::Kind::runtime, "write the checkpoint of step " + step,
                         "a model of finite numbers",
                         "'" + name + "' with a NaN or an infinity after step " + step,
                         "a lower optim.lr or a longer warm-up; --resume goes on from the "
                         "checkpoint before, which is finite");
  }
}

/// Reads one tensor at a time.
void expect_finite_file(const fs::path& checkpoint) {
  for (const StoredTensor& tensor : models::open_safetensors(checkpoint / model_file).tensors)
    if (may_be_infinite(tensor.dtype) && !kernels::all_finite(tensor.read()))
      throw not_whole(checkpoint, std::string(model_file) + " of finite numbers",
                      "tensor \"" + tensor.name + "\" with a NaN or an infinity");
}

Manifest::File file_entry(const fs::path& file, models::TensorChecksums tensors) {
  return {.bytes = static_cast<std::int64_t>(fs::file_size(file)),
          .checksum = {},
          .tensors = std::move(tensors)};
}

/// Writes all files of a checkpoint into `folder`, the manifest last.
void write_files(const fs::path& folder, const CheckpointContent& content) {
  Manifest manifest{.step = content.state.step, .files = {}};
  const auto written = [&](const char* name, models::TensorChecksums tensors) {
    manifest.files[name] = file_entry(folder / name, std::move(tensors));
  };
  const std::map<std::string, std::string> format{{"format", "pt"}};
  written(model_file, content.gathered_model.empty()
                          ? models::write_safetensors(folder / model_file, content.model, format)
                          : models::write_stored_safetensors(folder / model_file,
                                                             content.gathered_model, format));
  written(optimizer_file,
          content.gathered.empty()
              ? models::write_safetensors(folder / optimizer_file, content.optimizer)
              : models::write_stored_safetensors(folder / optimizer_file, content.gathered));
  if (!content.ranks.empty())
    written(ranks_file, models::write_safetensors(folder / ranks_file, content.ranks));
  if (!content.window.empty())
    written(window_file, models::write_stored_safetensors(folder / window_file, content.window));
  json state = to_json(content.state);
  state["model"] = shape_to_json(content.shape);
  if (content.metrics) state["metrics"] = metrics_to_json(*content.metrics);
  // The text has class names, which are names of folders and so may be any bytes.
  const std::string text = state.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
  write_file_atomically(folder / state_file, text);
  manifest.files[state_file] = {
      .bytes = std::ssize(text), .checksum = checksum_of(text), .tensors = {}};
  write_manifest(folder, manifest);
}

}  // namespace

std::string optimizer_prefix(std::int64_t rank) { return "rank" + std::to_string(rank) + "."; }

CheckpointContent checkpoint_content(const TrainState& state, const ModelConfig& shape,
                                     const models::Model& model,
                                     const optim::Optimizer& optimizer) {
  return {.state = state,
          .shape = shape,
          .model = with_copies_of(model.buffers(), model.file_tensors()),
          .optimizer = optimizer.state()};
}

fs::path write_checkpoint(const RunDirectory& run, const CheckpointContent& content,
                          const std::function<void()>& expect_held) {
  expect_finite(content);
  if (expect_held) expect_held();
  const fs::path final_path = run.checkpoint(content.state.step);
  const fs::path partial = partial_of(final_path);
  try {
    fs::remove_all(partial);
    // Its parent is not created: a run directory that is gone must not return with one checkpoint.
    fs::create_directory(partial);
    write_files(partial, content);
    memory::leave_memory();  // throws if the disk lost what was offloaded, and perhaps read again
    if (expect_held) expect_held();
    put_in_place(partial, final_path);
  } catch (const fs::filesystem_error& error) {
    std::error_code ignored;
    fs::remove_all(partial, ignored);
    if (expect_held) expect_held();  // after a takeover the new holder removed the folder
    throw runtime_error("write checkpoint " + final_path.string(), "a writable run directory",
                        error.code().message(), "another run.out");
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(partial, ignored);
    if (expect_held) expect_held();
    throw;
  }
  return final_path;
}

TrainState read_checkpoint_state(const fs::path& checkpoint) {
  return read_bookkeeping(checkpoint).state;
}

bool checkpoint_is_whole(const fs::path& checkpoint) {
  try {
    read_checkpoint_state(checkpoint);
    return true;
  } catch (const Error&) {
    return false;
  }
}

VerifiedCheckpoint::VerifiedCheckpoint(fs::path folder, Files files) : folder_(std::move(folder)) {
  Bookkeeping found = read_bookkeeping(folder_);
  has_checksums_ = found.has_checksums;
  for (const auto& [name, file] : found.manifest.files) {
    const bool wanted = files == Files::all || (files == Files::model && name == model_file);
    if (wanted && has_checksums_ && name != state_file)
      check_tensors(folder_, found.manifest, name);
  }
  if (files != Files::none && !is_foreign(found.shape.kind)) expect_finite_file(folder_);
  has_ranks_ = found.manifest.files.contains(ranks_file);
  has_window_ = found.manifest.files.contains(window_file);
  state_ = std::move(found.state);
  shape_ = std::move(found.shape);
  metrics_ = std::move(found.metrics);
}

Config VerifiedCheckpoint::with_shape(Config config) const {
  config.model.layers = shape_.layers;
  config.model.heads = shape_.heads;
  config.model.stem = shape_.stem;
  config.model.kv_heads = shape_.kv_heads;
  config.model.width = shape_.width;
  config.model.ffn_width = shape_.ffn_width;
  config.model.norm_eps = shape_.norm_eps;
  config.model.token_types = shape_.token_types;
  config.model.config_json = shape_.config_json;
  config.model.lora.adapters = shape_.lora.adapters;
  config.model.base = shape_.base;
  config.model.context = shape_.context;
  config.model.vocab = shape_.vocab;
  if (!shape_.image.empty()) config.model.image = shape_.image;
  config.model.classes = shape_.classes;
  return config;
}

fs::path VerifiedCheckpoint::model_path() const { return folder_ / model_file; }

StoredTensors VerifiedCheckpoint::model() const {
  return models::open_safetensors(model_path()).tensors;
}

void VerifiedCheckpoint::load(models::Model& into) const {
  into.load_file_tensors(model(), model_path().string());
}

void VerifiedCheckpoint::load(models::Model& into, optim::Optimizer& optimizer) const {
  load(into);
  optimizer.load_state(this->optimizer());
}

StoredTensors VerifiedCheckpoint::optimizer() const {
  return models::open_safetensors(folder_ / optimizer_file).tensors;
}

StoredTensors VerifiedCheckpoint::ranks() const {
  if (!has_ranks_) return {};
  return models::open_safetensors(folder_ / ranks_file).tensors;
}

StoredTensors VerifiedCheckpoint::window() const {
  if (!has_window_) return {};
  return models::open_safetensors(folder_ / window_file).tensors;
}

}  // namespace accrue::train
