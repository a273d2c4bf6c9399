#include "cli/export/gguf_export.h"

#include <iostream>
#include <optional>
#include <utility>

#include "accrue/core/error.h"
#include "accrue/models/gpt2_gguf.h"
#include "accrue/models/llama_gguf.h"
#include "cli/export/card_parts.h"
#include "cli/output/progress_on_stderr.h"
#include "cli/text/trained_text.h"
#include "core/printable.h"
#include "data/tokenizer/folder/tokenizer_files.h"
#include "models/files/hub/model_folder.h"
#include "train/workload/gguf_tokenizer.h"
#include "train/workload/tokenizer_folder.h"

namespace accrue::cli {
namespace {

namespace fs = std::filesystem;

/// The model of a run, if it can be written as GGUF: one of the two is set.
struct GgufModel {
  const models::Gpt2* gpt2 = nullptr;
  const models::Llama* llama = nullptr;

  const models::LanguageModel& either() const {
    return gpt2 != nullptr ? static_cast<const models::LanguageModel&>(*gpt2) : *llama;
  }
  const char* title() const { return gpt2 != nullptr ? "GPT-2" : "Llama"; }
};

GgufModel expect_gguf_model(const train::TrainedModel& trained) {
  const GgufModel model{.gpt2 = dynamic_cast<const models::Gpt2*>(trained.model.get()),
                        .llama = dynamic_cast<const models::Llama*>(trained.model.get())};
  if (model.gpt2 != nullptr || model.llama != nullptr) return model;
  throw usage_error("export --format gguf", "a model of kind gpt2 or llama",
                    std::string(to_string(trained.config.model.kind)), "--format hf");
}

/// The tokenizer.json of the model's tokens, as long as the object exists.
class TokenizerOfModel {
 public:
  TokenizerOfModel(const train::TrainedModel& trained, std::int64_t context) {
    const std::string& from = trained.config.model.from;
    if (trained_on_bytes(trained)) {
      folder_.emplace();
      data::write_byte_tokenizer(folder_->path(), context);
      file_ = folder_->path() / data::kTokenizerFile;
    } else if (trained.tokenizer.empty() && models::is_gguf(from)) {
      in_gguf_ = train::open_gguf_tokenizer(from, "export --format gguf");
      if (in_gguf_) file_ = in_gguf_->file();
    } else if (fs::path file = tokenizer_file_of(trained); !file.empty()) {
      file_ = std::move(file);
    }
  }

  const std::optional<fs::path>& file() const { return file_; }

 private:
  std::optional<train::TokenizerFolder> folder_;  ///< of the byte tokenizer
  std::shared_ptr<const data::Tokenizer> in_gguf_;
  std::optional<fs::path> file_;
};

/// The card's section on differences in llama.cpp, which is also printed on stderr; empty if there
/// are none.
std::string note_differences(const models::GgufDifferences& differences) {
  std::string section;
  for (const std::string& difference : differences) {
    std::cerr << "note: " << printable_line(difference) << '\n';
    section += "- " + difference + ".\n";
  }
  return section.empty() ? ""
                         : "\n## Its tokenizer\n\nThe nearest that llama.cpp has:\n\n" + section;
}

}  // namespace

std::string save_gguf(const fs::path& out, const train::TrainedModel& trained,
                      const GgufExport& wanted) {
  const GgufModel model = expect_gguf_model(trained);
  const TokenizerOfModel tokenizer(trained, model.either().context());
  std::optional<models::GgufTokens> tokens;
  if (tokenizer.file())
    tokens = models::GgufTokens{.tokenizer = *tokenizer.file(),
                                .end_tokens = wanted.end_tokens,
                                .nearest = wanted.nearest_tokenizer};
  models::prepare_model_folder(out, {"model.gguf"});
  const fs::path file = out / "model.gguf";
  const models::GgufDifferences differences =
      during(progress_on_stderr(), "writing the model", [&] {
        return model.gpt2 != nullptr
                   ? models::save_gpt2_gguf(file, *model.gpt2, wanted.dtype, tokens)
                   : models::save_llama_gguf(file, *model.llama, wanted.dtype, tokens);
      });
  return card_head("", "text-generation", {"gguf", "accrue"},
                   std::string("A ") + model.title() + " model trained with accrue") +
         "Its matrices are stored in " + std::string(models::gguf_dtype_words.of(wanted.dtype)) +
         ". " + written_from(trained) +
         "\n```sh\nllama-cli -m PATH_TO_THIS_FOLDER/model.gguf -p \"Once upon a time\"\n```\n" +
         note_differences(differences) + training_section(trained);
}

std::string save_gguf_adapter(const fs::path& out, const train::TrainedModel& trained) {
  const GgufModel model = expect_gguf_model(trained);
  models::prepare_model_folder(out, {"adapter.gguf"});
  const fs::path file = out / "adapter.gguf";
  if (model.gpt2 != nullptr)
    models::save_gpt2_gguf_adapter(file, *model.gpt2);
  else
    models::save_llama_gguf_adapter(file, *model.llama);
  return card_head("", "text-generation", {"gguf", "lora", "accrue"},
                   "Adapters trained with accrue") +
         "Of rank " + std::to_string(model.either().adapters().rank) + ", for the model in `" +
         trained.config.model.from + "`, as a GGUF file. " + written_from(trained) +
         "\n```sh\nllama-cli -m PATH_TO_THE_BASE.gguf --lora PATH_TO_THIS_FOLDER/adapter.gguf -p "
         "\"Once upon a time\"\n```\n" +
         training_section(trained);
}

}  // namespace accrue::cli
