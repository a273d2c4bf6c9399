#include "train/workload/model_origin.h"

#include "accrue/core/error.h"
#include "accrue/core/units.h"
#include "accrue/models/adapter_io.h"
#include "accrue/models/bert_io.h"
#include "accrue/models/gguf_magic.h"
#include "accrue/models/gpt2_io.h"
#include "accrue/models/normalisation.h"
#include "core/words.h"
#include "kernels/blocks/block_matrix.h"
#include "models/files/hub/model_folder.h"
#include "train/checkpoint/checkpoint.h"
#include "train/config/origin_kind.h"
#include "train/workload/shape_of_run.h"
#include "train/workload/workload.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;

bool is_checkpoint(const fs::path& folder) {
  std::error_code unreadable;
  return fs::is_regular_file(folder / "state.json", unreadable);
}

/// The path without a trailing separator, so that its parent is the folder that it is in.
fs::path as_folder(const std::string& name) {
  const fs::path path = fs::absolute(name).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

/// The target of a link to a checkpoint lies elsewhere, and a run's checkpoints may be such links.
RunOrigin origin_of_checkpoint(const std::string& from) {
  std::error_code unreadable;
  for (const fs::path& checkpoint : {as_folder(from), fs::canonical(from, unreadable)}) {
    const RunDirectory run(checkpoint.parent_path().parent_path());
    if (fs::exists(run.config_file(), unreadable)) return {run, checkpoint};
  }
  throw usage_error(
      "model.from = \"" + from + "\"",
      "a checkpoint in its run's folder, as in RUN/checkpoints/step-00000010",
      "one without its run: there is no " +
          RunDirectory(as_folder(from).parent_path().parent_path()).config_file().string(),
      "the run's folder, or the checkpoint where the run wrote it");
}

void check_goes_with(const Config& config, const Config& theirs) {
  const auto refuse = [&](const std::string& expected, const std::string& received,
                          const std::string& suggestion) {
    throw usage_error("model.from = \"" + config.model.from + "\"", expected, received, suggestion);
  };
  if (theirs.model.kind == ModelKind::torchscript)
    refuse("the file of a TorchScript module", "a run, whose checkpoints have its tensors alone",
           "--resume to go on with that run, or model.from = \"" + theirs.model.from +
               "\", which it began with");
  if (config.model.kind != theirs.model.kind)
    refuse("model.kind = " + in_quotes(to_string(theirs.model.kind)) + ", as that run has",
           in_quotes(to_string(config.model.kind)),
           "kind = " + in_quotes(to_string(theirs.model.kind)) + " in [model]");
  const auto norm = [](const Config& c) { return models::norm_of(c.model.batchnorm); };
  if (norm(config) != norm(theirs))
    refuse(
        "model.batchnorm = " + in_quotes(to_string(theirs.model.batchnorm)) + ", as that run has",
        in_quotes(to_string(config.model.batchnorm)),
        "batchnorm = " + in_quotes(to_string(theirs.model.batchnorm)) + " in [model]");
}

}  // namespace

std::string start_in_words(const std::string& from, const models::Model& model) {
  std::int64_t count = 0;
  for (const NamedParameter& parameter : model.parameters())
    if (!models::is_adapter_name(parameter.name)) count += kernels::element_count(parameter.tensor);
  return "the model starts as " + from + " has it: " + format_count(static_cast<double>(count)) +
         " parameters";
}

void expect_model_files(const std::string& from, ModelKind kind) {
  std::error_code unreadable;
  if (models::is_gguf(from)) {
    const ModelKind own = kind_of_origin(from).value_or(ModelKind::llama);
    if (kind == own) return;
    throw usage_error(
        "model.from = \"" + from + "\"",
        "model.kind = " + in_quotes(to_string(own)) + " or \"auto\" with a GGUF file of that kind",
        in_quotes(to_string(kind)), "leaving model.kind out");
  }
  const fs::path config = fs::path(from) / "config.json";
  if (fs::exists(config, unreadable)) return;
  throw no_model_there("model.from = \"" + from + "\"",
                       fs::is_directory(from, unreadable)
                           ? "a folder without " + config.string() + ", and no run"
                       : fs::exists(from, unreadable) ? "another file"
                                                      : std::string("no such folder"));
}

void note_shorter_context(ModelKind kind, std::int64_t positions, std::int64_t context,
                          std::vector<std::string>& remarks) {
  if (context == positions) return;
  const std::string kept = std::to_string(context);
  std::string remark = "model.context = " + kept + " of the model's " + std::to_string(positions);
  if (kind != ModelKind::llama)
    remark += ": it keeps the first " + kept + " of its position embeddings";
  remarks.push_back(std::move(remark));
}

std::optional<RunOrigin> run_origin(const std::string& from) {
  std::error_code unreadable;
  if (from.empty() || !fs::is_directory(from, unreadable)) return std::nullopt;
  if (is_checkpoint(from)) return origin_of_checkpoint(from);
  const RunDirectory run(from);
  if (fs::exists(run.root() / "config.json", unreadable) || !run.holds_run()) return std::nullopt;
  return RunOrigin{run, find_checkpoint(run, std::nullopt)};
}

Config with_shape_of(const VerifiedCheckpoint& checkpoint, Config config) {
  const Config stated = config;
  const LoraConfig adapters = config.model.lora;
  const models::BaseFormat base = config.model.base;
  config = checkpoint.with_shape(std::move(config));
  expect_shape_of_run(stated, config);
  if (!adapters.is_on()) return config;
  config.model.lora = adapters;
  config.model.base = base;
  return config;
}

std::unique_ptr<models::Model> load_from_run(Config& config, const RunOrigin& origin,
                                             std::vector<std::string>& remarks) {
  const Config theirs = origin.run.config();
  check_goes_with(config, theirs);
  const VerifiedCheckpoint checkpoint(origin.checkpoint, VerifiedCheckpoint::Files::model);
  const std::optional<std::int64_t> wanted = config.model.context;
  if (config.model.lora.is_on() && checkpoint.with_shape(config).model.lora.adapters.any())
    throw usage_error("model.from = \"" + config.model.from + "\"",
                      "a run that trained a whole model", "one that trained adapters",
                      "accrue export, which merges them into their base, or with --format adapter "
                      "makes a folder for lora.from");
  config = with_shape_of(checkpoint, std::move(config));
  const std::size_t said_before = remarks.size();
  const std::string file = checkpoint.model_path().string();
  StoredTensors tensors = checkpoint.model();
  if (is_language_model(config.model.kind) && wanted) {
    const std::int64_t positions = config.model.context_or_default();
    if (config.model.kind == ModelKind::gpt2)
      tensors = models::with_first_positions(std::move(tensors), positions, *wanted, file);
    else if (config.model.kind == ModelKind::bert)
      tensors = models::with_first_bert_positions(std::move(tensors), positions, *wanted, file);
    else
      models::check_context(*wanted, positions, file);
    config.model.context = wanted;
    note_shorter_context(config.model.kind, positions, *wanted, remarks);
  }
  std::unique_ptr<models::Model> model = make_model_to_load(config);
  model->load_file_tensors(tensors, file);
  remarks.insert(remarks.begin() + static_cast<std::ptrdiff_t>(said_before),
                 start_in_words(origin.checkpoint.string(), *model));
  return model;
}

}  // namespace accrue::train
