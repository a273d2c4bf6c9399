#include "cli/gguf_export.h"

#include "accrue/core/error.h"
#include "cli/card_parts.h"
#include "cli/trained_text.h"
#include "data/text/tokenizer_files.h"
#include "models/files/model_folder.h"
#include "train/workload/gguf_tokenizer.h"
#include "train/workload/tokenizer_folder.h"

namespace accrue::cli {
namespace {

namespace fs = std::filesystem;

const models::Llama& expect_llama(const train::TrainedModel& trained) {
  if (const auto* llama = dynamic_cast<const models::Llama*>(trained.model.get())) return *llama;
  throw usage_error("export --format gguf", "a model of kind llama",
                    std::string(to_string(trained.config.model.kind)), "--format hf");
}

/// The tokenizer.json whose tokens the model has, for as long as the object is there.
class TokenizerOfModel {
 public:
  TokenizerOfModel(const train::TrainedModel& trained, std::int64_t context) {
    const std::string& from = trained.config.model.from;
    if (trained_on_bytes(trained)) {
      folder_.emplace();
      data::write_byte_tokenizer(folder_->path(), context);
      file_ = folder_->path() / data::kTokenizerFile;
    } else if (!trained.tokenizer.empty()) {
      file_ = trained.tokenizer;
    } else if (models::is_gguf(from)) {
      in_gguf_ = train::open_gguf_tokenizer(from, "export --format gguf");
      if (in_gguf_) file_ = in_gguf_->file();
    } else if (const fs::path file = fs::path(from) / data::kTokenizerFile;
               !from.empty() && is_there(file)) {
      file_ = file;
    }
  }

  const std::optional<fs::path>& file() const { return file_; }

 private:
  static bool is_there(const fs::path& file) {
    std::error_code unreadable;
    return fs::is_regular_file(file, unreadable);
  }

  std::optional<train::TokenizerFolder> folder_;  ///< of the tokenizer of bytes
  std::shared_ptr<const data::Tokenizer> in_gguf_;
  std::optional<fs::path> file_;
};

}  // namespace

std::string save_gguf(const fs::path& out, const train::TrainedModel& trained,
                      models::GgufDtype dtype) {
  const models::Llama& model = expect_llama(trained);
  const TokenizerOfModel tokenizer(trained, model.context());
  models::prepare_model_folder(out, {"model.gguf"});
  models::save_llama_gguf(out / "model.gguf", model, dtype, tokenizer.file());
  return card_head("", "text-generation", {"gguf", "accrue"}, "A Llama model trained with accrue") +
         "Its matrices are stored in " + std::string(models::gguf_dtype_words.of(dtype)) + ". " +
         written_from(trained) +
         "\n```sh\nllama-cli -m PATH_TO_THIS_FOLDER/model.gguf -p \"Once upon a time\"\n```\n" +
         training_section(trained);
}

std::string save_gguf_adapter(const fs::path& out, const train::TrainedModel& trained) {
  const models::Llama& model = expect_llama(trained);
  models::prepare_model_folder(out, {"adapter.gguf"});
  models::save_llama_gguf_adapter(out / "adapter.gguf", model);
  return card_head("", "text-generation", {"gguf", "lora", "accrue"},
                   "Adapters trained with accrue") +
         "Of rank " + std::to_string(model.adapters().rank) + ", for the model in `" +
         trained.config.model.from + "`, as a GGUF file. " + written_from(trained) +
         "\n```sh\nllama-cli -m PATH_TO_THE_BASE.gguf --lora PATH_TO_THIS_FOLDER/adapter.gguf -p "
         "\"Once upon a time\"\n```\n" +
         training_section(trained);
}

}  // namespace accrue::cli
