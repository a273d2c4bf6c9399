#include "cli/text/trained_text.h"

#include <system_error>

#include "accrue/core/error.h"
#include "data/tokenizer/folder/tokenizer_files.h"

namespace accrue::cli {

models::LanguageModel& expect_language_model(const train::TrainedModel& trained,
                                             const std::string& operation,
                                             const std::string& for_images,
                                             const std::string& for_others) {
  if (auto* model = dynamic_cast<models::LanguageModel*>(trained.model.get())) return *model;
  throw no_language_model(trained.config.model, operation, for_images, for_others);
}

Error no_language_model(const train::ModelConfig& model, const std::string& operation,
                        const std::string& for_images, const std::string& for_others) {
  const bool images = !model.image.empty();
  const bool sees_all = model.kind == train::ModelKind::bert;
  return usage_error(
      operation, "a run of a language model that predicts what follows (gpt2, llama)",
      "one of kind " + std::string(train::to_string(model.kind)) + (images ? ", of images" : ""),
      sees_all ? "a gpt2 or llama: a bert fills in hidden tokens, as transformers' "
                 "pipeline does with what accrue export writes"
      : images ? for_images
               : for_others);
}

bool trained_on_bytes(const train::TrainedModel& trained) {
  return trained.tokenizer.empty() &&
         train::trained_on_bytes(trained.data_format, trained.config.model);
}

std::filesystem::path tokenizer_file_of(const train::TrainedModel& trained) {
  if (!trained.tokenizer.empty()) return trained.tokenizer;
  const std::string& from = trained.config.model.from;
  if (from.empty() || trained_on_bytes(trained)) return {};
  std::filesystem::path file = std::filesystem::path(from) / data::kTokenizerFile;
  std::error_code unreadable;
  return std::filesystem::is_regular_file(file, unreadable) ? file : std::filesystem::path();
}

}  // namespace accrue::cli
