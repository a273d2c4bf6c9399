#include "checkpoint.h"

#include <ATen/core/grad_mode.h>
#include <fcntl.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "accrue/core/atomic_file.h"
#include "accrue/core/error.h"
#include "accrue/models/safetensors.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* model_file = "model.safetensors";
constexpr const char* optimizer_file = "optimizer.safetensors";
constexpr const char* ranks_file = "ranks.safetensors";
constexpr const char* state_file = "state.json";

json rank_to_json(const RankRecord& rank) {
  return {{"micro_batch", rank.micro_batch},
          {"recompute", to_string(rank.recompute)},
          {"seconds_per_sample", rank.seconds_per_sample}};
}

RankRecord rank_from_json(const json& in) {
  return {.micro_batch = in.at("micro_batch").get<std::int64_t>(),
          .recompute = parse_recompute(in.at("recompute").get<std::string>(), "ranks.recompute"),
          .seconds_per_sample = in.at("seconds_per_sample").get<std::vector<double>>()};
}

json state_to_json(const TrainState& state) {
  json out{{"step", state.step},
           {"window", state.window},
           {"samples", state.samples},
           {"tokens", state.tokens},
           {"elapsed", state.elapsed},
           {"plan",
            {{"micro_batch", state.micro_batches.planned},
             {"recompute", to_string(state.recompute)},
             {"micro_batch_now", state.micro_batches.micro_batch},
             {"quiet_windows", state.micro_batches.quiet_windows}}},
           {"data", {{"next_window", state.window}, {"fingerprint", state.data_fingerprint}}}};
  if (state.ranks.size() > 1)
    for (const RankRecord& rank : state.ranks) out["ranks"].push_back(rank_to_json(rank));
  if (!state.units.empty()) out["units"] = state.units;
  if (state.inner_optimizers) out["inner_optimizers"] = *state.inner_optimizers;
  if (state.best_eval) out["best"] = {{"eval_loss", *state.best_eval}, {"step", *state.best_step}};
  return out;
}

/// What later versions added may be missing.
memory::RecoveryState micro_batches_from_json(const json& plan) {
  const auto planned = plan.at("micro_batch").get<std::int64_t>();
  return {.planned = planned,
          .micro_batch = plan.value("micro_batch_now", planned),
          .quiet_windows = plan.value("quiet_windows", std::int64_t{0})};
}

TrainState state_from_json(const json& in) {
  TrainState state;
  in.at("step").get_to(state.step);
  in.at("window").get_to(state.window);
  in.at("samples").get_to(state.samples);
  in.at("tokens").get_to(state.tokens);
  in.at("elapsed").get_to(state.elapsed);
  state.micro_batches = micro_batches_from_json(in.at("plan"));
  state.recompute = parse_recompute(in["plan"].value("recompute", "none"), "plan.recompute");
  for (const json& rank : in.value("ranks", json::array()))
    state.ranks.push_back(rank_from_json(rank));
  in.at("data").at("fingerprint").get_to(state.data_fingerprint);
  if (in.contains("units")) in["units"].get_to(state.units);
  if (in.contains("inner_optimizers"))
    state.inner_optimizers = in["inner_optimizers"].get<std::int64_t>();
  if (in.contains("best")) {
    state.best_eval = in["best"].at("eval_loss").get<double>();
    state.best_step = in["best"].at("step").get<std::int64_t>();
  }
  return state;
}

json shape_to_json(const ModelConfig& shape) {
  json out{{"kind", shape.kind},   {"layers", shape.layers},   {"heads", shape.heads},
           {"width", shape.width}, {"context", shape.context}, {"vocab", *shape.vocab}};
  if (!shape.image.empty()) out["image"] = shape.image;
  return out;
}

Error not_whole(const fs::path& checkpoint, const std::string& received) {
  return usage_error("read checkpoint " + checkpoint.string(), "a whole checkpoint", received,
                     "an earlier checkpoint of the run");
}

json read_state(const fs::path& checkpoint) {
  const json state = json::parse(read_file(checkpoint / state_file), nullptr, false);
  if (state.is_discarded()) throw not_whole(checkpoint, "a state.json that does not parse");
  return state;
}

void check_lengths(const fs::path& checkpoint, const json& state) {
  for (const auto& [name, bytes] : state.at("files").items()) {
    std::error_code error;
    const auto found = fs::file_size(checkpoint / name, error);
    if (error) throw not_whole(checkpoint, "no " + name);
    if (found != bytes.get<std::uintmax_t>())
      throw not_whole(checkpoint, name + " of " + std::to_string(found) + " bytes instead of " +
                                      std::to_string(bytes.get<std::uintmax_t>()));
  }
}

/// Swaps two folders in one step, so that a whole checkpoint is at `to` at any moment. False where
/// the file system (NFS, FUSE) cannot.
bool exchange(const fs::path& from, const fs::path& to) {
  return renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0;
}

/// Puts `from` in the place of `to`, whose old content goes.
void replace_folder(const fs::path& from, const fs::path& to) {
  if (!fs::exists(to)) {
    fs::rename(from, to);
  } else if (exchange(from, to)) {
    fs::remove_all(from);
  } else {
    // The old one is set aside first: a rename does not replace a folder that is not empty.
    fs::path old = from;
    old += ".old";
    fs::rename(to, old);
    fs::rename(from, to);
    fs::remove_all(old);
  }
  sync_to_disk(to.parent_path());
}

/// What a killed process left half-written.
void remove_partial_checkpoints(const RunDirectory& run) {
  std::error_code ignored;
  std::vector<fs::path> partial;
  for (const fs::directory_entry& entry : fs::directory_iterator(run.checkpoints(), ignored))
    if (entry.path().filename().string().starts_with(".step-")) partial.push_back(entry.path());
  for (const fs::path& folder : partial) fs::remove_all(folder, ignored);
}

/// `tensors`, those that share memory with one of `changing` copied.
NamedParameters with_copies_of(const NamedParameters& changing, NamedParameters tensors) {
  const at::NoGradGuard no_grad;
  for (NamedParameter& kept : tensors)
    if (std::any_of(changing.begin(), changing.end(), [&](const NamedParameter& buffer) {
          return buffer.tensor.defined() && buffer.tensor.is_alias_of(kept.tensor);
        }))
      kept.tensor = kept.tensor.clone();
  return tensors;
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

fs::path write_checkpoint(const RunDirectory& run, const CheckpointContent& content) {
  const fs::path final_path = run.checkpoint(content.state.step);
  const fs::path partial = run.checkpoints() / ("." + final_path.filename().string() + ".partial");
  try {
    fs::remove_all(partial);
    fs::create_directories(partial);
    models::write_safetensors(partial / model_file, content.model, {{"format", "pt"}});
    if (content.gathered.empty())
      models::write_safetensors(partial / optimizer_file, content.optimizer);
    else
      models::write_stored_safetensors(partial / optimizer_file, content.gathered);
    if (!content.ranks.empty()) models::write_safetensors(partial / ranks_file, content.ranks);
    json out = state_to_json(content.state);
    out["model"] = shape_to_json(content.shape);
    for (const fs::directory_entry& file : fs::directory_iterator(partial))
      out["files"][file.path().filename().string()] = file.file_size();
    write_file_atomically(partial / state_file, out.dump(2) + "\n");
    replace_folder(partial, final_path);
  } catch (const fs::filesystem_error& error) {
    throw runtime_error("write checkpoint " + final_path.string(), "a writable run directory",
                        error.code().message(), "another run.out");
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(partial, ignored);
    throw;
  }
  return final_path;
}

TrainState read_checkpoint_state(const fs::path& checkpoint) {
  try {
    const json state = read_state(checkpoint);
    check_lengths(checkpoint, state);
    return state_from_json(state);
  } catch (const json::exception& error) {
    throw not_whole(checkpoint, std::string("a state.json that lacks something: ") + error.what());
  }
}

Config with_checkpoint_shape(Config config, const fs::path& checkpoint) {
  try {
    const json shape = read_state(checkpoint).at("model");
    shape.at("layers").get_to(config.model.layers);
    shape.at("heads").get_to(config.model.heads);
    shape.at("width").get_to(config.model.width);
    shape.at("context").get_to(config.model.context);
    config.model.vocab = shape.at("vocab").get<std::int64_t>();
    if (shape.contains("image")) shape["image"].get_to(config.model.image);
    return config;
  } catch (const json::exception& error) {
    throw not_whole(checkpoint,
                    std::string("a state.json without the model's shape: ") + error.what());
  }
}

void read_checkpoint_model(const fs::path& checkpoint, models::Model& model) {
  const fs::path path = checkpoint / model_file;
  model.load_file_tensors(models::open_safetensors(path).tensors, path.string());
}

void read_checkpoint_tensors(const fs::path& checkpoint, models::Model& model,
                             optim::Optimizer& optimizer) {
  read_checkpoint_model(checkpoint, model);
  optimizer.load_state(models::open_safetensors(checkpoint / optimizer_file).tensors);
}

StoredTensors read_checkpoint_ranks(const fs::path& checkpoint) {
  const fs::path path = checkpoint / ranks_file;
  return fs::exists(path) ? models::open_safetensors(path).tensors : StoredTensors{};
}

bool checkpoint_is_whole(const fs::path& checkpoint) {
  try {
    read_checkpoint_state(checkpoint);
    return true;
  } catch (const Error&) {
    return false;
  }
}

void prune_checkpoints(const RunDirectory& run, const PruneOptions& options) {
  std::vector<std::int64_t> steps = run.checkpoint_steps();
  std::error_code ignored;
  // Later ones are of an attempt that was given up by resuming from an earlier step.
  for (const std::int64_t step : steps)
    if (step > options.newest) fs::remove_all(run.checkpoint(step), ignored);
  std::erase_if(steps, [&](std::int64_t step) { return step > options.newest; });
  const auto surplus = static_cast<std::int64_t>(steps.size()) - options.keep;
  for (std::int64_t i = 0; i < surplus; ++i) {
    const std::int64_t step = steps[static_cast<std::size_t>(i)];
    if (step != options.best) fs::remove_all(run.checkpoint(step), ignored);
  }
  remove_partial_checkpoints(run);
}

}  // namespace accrue::train
