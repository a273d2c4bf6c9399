#include "accrue/train/run_directory.h"
#include "data/tokenizer/folder/tokenizer_files.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/kept_tokenizer.h"
#include "train/checkpoint/module_digest.h"
#include "train/workload/admitted_model.h"
#include "train/workload/model_factory.h"
#include "train/workload/workload.h"

namespace accrue::train {
namespace {

/// The format that a fingerprint begins with: "jsonl, packed: 3 files, ...". For tokenized text the
/// tokenizer is part of the format: such tokens are not bytes, whatever happened to its files.
std::string format_in(const std::string& fingerprint) {
  const std::string kind = fingerprint.substr(0, fingerprint.find(':'));
  return kind.find(", tokenizer ") == kind.npos ? kind.substr(0, kind.find(',')) : kind;
}

std::filesystem::path tokenizer_of(const RunDirectory& run) {
  expect_kept_tokenizer(run);
  const std::filesystem::path file = run.tokenizer_folder() / data::kTokenizerFile;
  std::error_code unreadable;
  return std::filesystem::exists(file, unreadable) ? file : std::filesystem::path();
}

}  // namespace

std::string data_format_of(const std::filesystem::path& checkpoint) {
  return format_in(read_checkpoint_state(checkpoint).data.fingerprint);
}

bool trained_on_bytes(const std::string& data_format, const ModelConfig& model) {
  // JSONL may hold ids of any tokenizer: those of bytes need no larger vocabulary.
  return data_format == "text" ||
         (data_format == "jsonl" && model.vocab.value_or(0) == byte_vocabulary_of(model.kind));
}

TrainedModel load_trained_model(const RunDirectory& run, std::optional<std::int64_t> step,
                                std::optional<models::Compute> compute, ModuleTrust trusted) {
  const VerifiedCheckpoint checkpoint(find_checkpoint(run, step), VerifiedCheckpoint::Files::model);
  TrainedModel trained{.config = checkpoint.with_shape(run.config()),
                       .checkpoint = checkpoint.folder(),
                       .step = checkpoint.state().step,
                       .data_format = format_in(checkpoint.state().data.fingerprint),
                       .tokenizer = tokenizer_of(run),
                       .model = nullptr};
  if (compute) trained.config.precision.compute = *compute;
  AdmitModule admit;
  if (trusted == ModuleTrust::recorded)
    admit = admission_of_module(trained.config, recorded_module(run),
                                "load the model of " + run.root().string());
  trained.model = make_admitted_model(trained.config, admit);
  checkpoint.load(*trained.model);
  return trained;
}

std::unique_ptr<models::Model> load_model(const RunDirectory& run, std::optional<std::int64_t> step,
                                          ModuleTrust trusted) {
  return load_trained_model(run, step, {}, trusted).model;
}

std::string class_name(const ModelConfig& model, std::int64_t index) {
  const auto place = static_cast<std::size_t>(index);
  return place < model.classes.size() ? model.classes[place] : std::to_string(index);
}

}  // namespace accrue::train
