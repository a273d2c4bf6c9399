#include "cli/text/text_model.h"

#include <filesystem>
#include <iostream>

#include "accrue/core/error.h"
#include "accrue/data/source.h"
#include "accrue/models/gguf.h"
#include "accrue/train/run_directory.h"
#include "cli/output/progress_on_stderr.h"
#include "cli/text/continuation.h"
#include "cli/text/trained_text.h"
#include "core/printable.h"
#include "core/words.h"
#include "data/text/samples/sample_encoder.h"
#include "data/tokenizer/folder/tokenizer_files.h"
#include "models/files/config/generation_config.h"
#include "train/config/origin_kind.h"
#include "train/plan/setup.h"
#include "train/workload/gguf_tokenizer.h"
#include "train/workload/model_factory.h"
#include "train/workload/model_origin.h"

namespace accrue::cli {
namespace {

namespace fs = std::filesystem;
constexpr const char* sample_text = "accrue sample";

void note_not_applied(const models::GenerationConfig& config, const std::string& name) {
  if (!config.not_applied.empty())
    std::cerr << "note: " << printable_line(name) << " states " << listed(config.not_applied, "and")
              << ", by which transformers says other texts: not applied\n";
}

/// Notes are printed before or after it, and not beside a line that is redrawn.
template <class Load>
auto while_loading(const TextModelOrigin& origin, const Load& load) {
  return during(progress_on_stderr(), "loading " + origin.from, load);
}

TextModel model_of_run(const TextModelOrigin& origin) {
  const train::RunDirectory run(origin.from);
  const std::string for_images = "accrue predict " + origin.from + " IMAGES",
                    for_others = "a run of a language model; this one's module is its own";
  // Loading a TorchScript module runs its code, and no such module is a language model.
  if (const train::ModelConfig module = run.config().model;
      module.kind == train::ModelKind::torchscript)
    throw no_language_model(module, sample_text, for_images, for_others);
  train::TrainedModel trained = while_loading(
      origin, [&] { return train::load_trained_model(run, origin.step, origin.compute); });
  models::LanguageModel& model =
      expect_language_model(trained, sample_text, for_images, for_others);
  if (trained.tokenizer.empty() && !trained_on_bytes(trained))
    throw usage_error(sample_text, "a model of text",
                      "a run on token files, whose tokenizer accrue does not know",
                      "accrue export, and sampling with that tokenizer");
  const Continuation continuation = continuation_of(run, trained, model, sample_text);
  const std::string name = Continuation::name_of_generation(trained);
  const models::GenerationConfig generation =
      models::parse_generation_config(continuation.generation.dump(), name);
  note_not_applied(generation, name);
  return {.owner = std::move(trained.model),
          .model = &model,
          .tokenizer = continuation.tokenizer,
          .end_tokens = continuation.ends,
          .rules = generation.rules,
          .chat = continuation.chat};
}

std::shared_ptr<const data::Tokenizer> tokenizer_in(const std::string& model, std::int64_t vocab) {
  using Kind = data::FolderTokenizer::Kind;
  if (models::is_gguf(model))
    if (auto own = train::open_gguf_tokenizer(model, sample_text)) return own;
  const data::FolderTokenizer found = data::find_tokenizer(model);
  const bool is_bytes =
      found.kind == Kind::bytes || (found.kind == Kind::none && vocab == train::byte_vocabulary);
  if (is_bytes) return nullptr;
  if (found.file.filename() == data::kTokenizerFile)
    return data::Tokenizer::open(found.file, sample_text);
  throw usage_error(sample_text, "a tokenizer in " + model,
                    found.file.empty() ? "no tokenizer" : found.file.string(),
                    "the one that the model came with (transformers' save_pretrained writes it)");
}

TextModel model_of_files(const TextModelOrigin& origin) {
  if (origin.step)
    throw usage_error(sample_text, "--checkpoint with a run folder",
                      origin.from + ", a model without steps", "leaving --checkpoint out");
  train::Config config;
  config.model.kind = train::kind_of_origin(origin.from).value_or(train::ModelKind::llama);
  config.model.from = origin.from;
  config.precision.compute = origin.compute.value_or(models::Compute::fp32);
  const auto refuse_kind = [&]() -> Error {
    return usage_error(
        sample_text, "a language model that predicts what follows (gpt2, llama and its relatives)",
        origin.from + " with one of kind " + std::string(train::to_string(config.model.kind)),
        "another folder");
  };
  if (config.model.kind == train::ModelKind::bert) throw refuse_kind();
  std::vector<std::string> remarks;
  TextModel loaded{
      .owner = while_loading(origin, [&] { return train::load_shaping_model(config, remarks); })};
  loaded.model = dynamic_cast<models::LanguageModel*>(loaded.owner.get());
  if (loaded.model == nullptr) throw refuse_kind();
  for (const std::string& remark : remarks)
    if (remark != train::start_in_words(origin.from, *loaded.owner))
      std::cerr << "note: " << printable_line(remark) << std::endl;
  loaded.tokenizer = tokenizer_in(origin.from, loaded.model->vocab());
  if (models::is_gguf(origin.from)) {
    loaded.end_tokens = models::read_gguf_end_tokens(origin.from);
  } else {
    models::GenerationConfig generation = models::read_generation_config(origin.from);
    note_not_applied(generation, std::string(models::kGenerationConfig) + " of " + origin.from);
    loaded.end_tokens = std::move(generation.end_tokens);
    loaded.rules = std::move(generation.rules);
  }
  if (loaded.tokenizer != nullptr)
    if (const std::optional<std::int64_t> end = loaded.tokenizer->end_of_text())
      loaded.end_tokens.push_back(*end);
  return loaded;
}

bool is_model(const std::string& from) {
  std::error_code unreadable;
  return models::is_gguf(from) || fs::exists(fs::path(from) / "config.json", unreadable);
}

}  // namespace

std::vector<std::int64_t> TextModel::encode(const std::string& text) const {
  if (tokenizer == nullptr) return data::text_to_bytes(text);
  data::SampleEncoder encoder(tokenizer.get());
  std::vector<std::int64_t> ids;
  encoder.begin(ids);
  encoder.add(text, ids);
  return ids;
}

TextModel load_text_model(const TextModelOrigin& origin) {
  train::use_threads(0);
  return is_model(origin.from) ? model_of_files(origin) : model_of_run(origin);
}

}  // namespace accrue::cli
