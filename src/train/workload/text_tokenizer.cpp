#include "train/workload/text_tokenizer.h"

#include <optional>

#include "accrue/core/error.h"
#include "accrue/models/gguf_magic.h"
#include "accrue/train/run_directory.h"
#include "data/tokenizer/folder/tokenizer_files.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/kept_tokenizer.h"
#include "train/workload/gguf_tokenizer.h"
#include "train/workload/model_factory.h"
#include "train/workload/model_origin.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;
using Kind = data::FolderTokenizer::Kind;

/// The tokenizer of `model.from`.
data::FolderTokenizer tokenizer_of_model(const Config& config) {
  if (config.model.from.empty()) return {};
  if (const auto origin = run_origin(config.model.from)) {
    expect_kept_tokenizer(origin->run);
    return data::find_tokenizer(origin->run.tokenizer_folder());
  }
  return data::find_tokenizer(config.model.from);
}

fs::path stated_file(const Config& config) {
  fs::path file(config.data.tokenizer);
  std::error_code unreadable;
  if (fs::is_directory(file, unreadable)) file /= data::kTokenizerFile;
  if (!fs::exists(file, unreadable))
    throw usage_error("data.tokenizer", "\"auto\", \"bytes\", a tokenizer.json or its folder",
                      "'" + config.data.tokenizer + "', which is not there",
                      "a path that leads there from " + fs::current_path().string());
  return file;
}

/// The tokenizer.json for the config; none: bytes.
std::optional<fs::path> tokenizer_file(const Config& config) {
  if (config.data.tokenizer == data::kByteTokenizer) return std::nullopt;
  if (config.data.tokenizer != data::kAutoTokenizer) return stated_file(config);
  const data::FolderTokenizer found = tokenizer_of_model(config);
  const bool is_readable =
      found.kind == Kind::other && found.file.filename() == data::kTokenizerFile;
  return is_readable ? std::optional(found.file) : std::nullopt;
}

/// The tokenizer for the config; null: bytes.
std::shared_ptr<const data::Tokenizer> open_tokenizer(const Config& config) {
  if (config.data.tokenizer == data::kAutoTokenizer && models::is_gguf(config.model.from))
    return open_gguf_tokenizer(config.model.from, "data.tokenizer");
  const std::optional<fs::path> file = tokenizer_file(config);
  return file ? data::Tokenizer::open(*file, "data.tokenizer") : nullptr;
}

class TextIsOfModel {
 public:
  TextIsOfModel(const Config& config, const data::Source& data, const std::string& key)
      : config_(config), tokenizer_(data.tokenizer()), key_(key) {}

  void check() const {
    if (models::is_gguf(config_.model.from) && tokenizer_)
      return;  // its own tokenizer, or a stated one
    const data::FolderTokenizer own = tokenizer_of_model(config_);
    const std::int64_t vocab = config_.model.vocab.value_or(0);
    if (own.kind == Kind::other) return check_other(own.file);
    if (own.kind == Kind::bytes) return check_bytes(own.file.string());
    if (const auto origin = run_origin(config_.model.from)) {
      if (trained_on_bytes(data_format_of(origin->checkpoint), config_.model))
        return check_bytes("the run's text");
      if (!tokenizer_)
        throw refusal("the tokens of that run, which are not known to be bytes of text");
      return;
    }
    if (!tokenizer_ && vocab != byte_vocabulary_of(config_.model.kind))
      throw refusal("token ids made with the tokenizer of the model, whose vocabulary is " +
                    std::to_string(vocab) + " and not 256 bytes");
  }

 private:
  void check_bytes(const std::string& where) const {
    if (tokenizer_ && !data::is_byte_tokenizer(tokenizer_->file()))
      throw refusal("bytes, as the model was trained on (" + where + ")");
  }

  void check_other(const fs::path& own) const {
    const bool is_readable = own.filename() == data::kTokenizerFile;
    if (tokenizer_ && (!is_readable || is_same_as(own))) return;
    throw refusal("token ids made with the model's tokenizer (" + own.string() + ")" +
                  (is_readable ? "" : ", a file that this version does not read"));
  }

  bool is_same_as(const fs::path& own) const {
    std::error_code unreadable;
    return fs::equivalent(own, tokenizer_->file(), unreadable) ||
           data::Tokenizer::open(own, key_)->fingerprint() == tokenizer_->fingerprint();
  }

  Error refusal(const std::string& expected) const {
    return usage_error(
        key_ + " with model.from = \"" + config_.model.from + "\"", expected,
        tokenizer_
            ? "text by " + tokenizer_->file().string() + ", another tokenizer"
            : "text, which is read as bytes: to the model they would be 256 unrelated tokens",
        "data.tokenizer: the tokenizer.json that the model came with (transformers' "
        "save_pretrained writes one); or token files (data.format = \"tokens\"), or JSON lines "
        "with "
        "\"input_ids\"");
  }

  const Config& config_;
  std::shared_ptr<const data::Tokenizer> tokenizer_;
  const std::string& key_;
};

}  // namespace

OpenTokenizer tokenizer_of(const Config& config) {
  using Opened = std::optional<std::shared_ptr<const data::Tokenizer>>;
  return [config, opened = std::make_shared<Opened>()] {  // copies of the function share it
    if (!*opened) *opened = open_tokenizer(config);
    return **opened;
  };
}

void check_text_is_of_model(const Config& config, const data::Source& data,
                            const std::string& key) {
  if (!data.has_text() || !is_language_model(config.model.kind) || config.model.from.empty())
    return;
  TextIsOfModel(config, data, key).check();
}

fs::path text_cache_of(const Config& config) {
  if (config.run.out.empty()) return {};
  const fs::path run = fs::path(config.run.out).lexically_normal();
  return (run.has_filename() ? run : run.parent_path()).parent_path() / ".accrue-text";
}

}  // namespace accrue::train
