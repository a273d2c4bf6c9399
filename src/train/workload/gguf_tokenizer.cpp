#include "train/workload/gguf_tokenizer.h"

#include "accrue/models/llama_gguf.h"
#include "core/atomic_file.h"
#include "data/text/tokenizer_files.h"
#include "train/workload/tokenizer_folder.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;

/// A tokenizer and the files that it was read from.
struct WithFiles {
  TokenizerFolder folder;
  std::shared_ptr<const data::Tokenizer> tokenizer = nullptr;
};

}  // namespace

std::shared_ptr<const data::Tokenizer> open_gguf_tokenizer(const fs::path& file,
                                                           const std::string& what) {
  const auto read = models::read_gguf_tokenizer(file);
  if (!read) return nullptr;
  const auto made = std::make_shared<WithFiles>();
  const fs::path folder = made->folder.path();
  write_file_atomically(folder / data::kTokenizerFile, read->tokenizer);
  write_file_atomically(folder / data::kTokenizerSettings, read->settings);
  if (!read->chat_template.empty())
    write_file_atomically(folder / data::kChatTemplateFile, read->chat_template);
  made->tokenizer = data::Tokenizer::open(folder / data::kTokenizerFile,
                                          what + " (the tokenizer in " + file.string() + ")");
  return {made, made->tokenizer.get()};
}

}  // namespace accrue::train
