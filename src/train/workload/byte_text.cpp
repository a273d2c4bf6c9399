#include "train/workload/byte_text.h"

#include "accrue/core/error.h"
#include "accrue/train/run_directory.h"
#include "data/text/tokenizer_files.h"
#include "train/checkpoint/checkpoint.h"
#include "train/workload/model_factory.h"
#include "train/workload/model_origin.h"

namespace accrue::train {
namespace {

Error text_of_bytes(const Config& config, const std::string& key, const std::string& expected) {
  return usage_error(
      key + " with model.from = \"" + config.model.from + "\"", expected,
      "text, which this version reads as bytes: to the model they would be 256 unrelated tokens",
      "token files (data.format = \"tokens\", uint16) or JSON lines with \"input_ids\", made with "
      "the model's tokenizer");
}

}  // namespace

void check_text_is_of_model(const Config& config, const data::Source& data,
                            const std::string& key) {
  using Kind = data::FolderTokenizer::Kind;
  if (!data.has_text() || !is_language_model(config.model.kind) || config.model.from.empty())
    return;
  const std::int64_t vocab = config.model.vocab.value_or(0);
  if (const auto origin = run_origin(config.model.from)) {
    if (trained_on_bytes(data_format_of(origin->checkpoint), vocab)) return;
    throw text_of_bytes(config, key,
                        "the tokens of that run, which are not known to be bytes of text");
  }
  const data::FolderTokenizer tokenizer = data::find_tokenizer(config.model.from);
  if (tokenizer.kind == Kind::other)
    throw text_of_bytes(config, key,
                        "token ids made with the model's tokenizer (" + tokenizer.file.string() +
                            "), which this version does not read");
  if (tokenizer.kind == Kind::none && vocab != byte_vocabulary)
    throw text_of_bytes(config, key,
                        "token ids made with the tokenizer of the model, whose vocabulary is " +
                            std::to_string(vocab) + " and not 256 bytes");
}

}  // namespace accrue::train
