#include "train/workload/gguf_tokenizer.h"

#include "accrue/models/gguf.h"
#include "core/atomic_file.h"
#include "data/tokenizer/folder/tokenizer_files.h"
#include "train/workload/tokenizer_folder.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;

/// A tokenizer and the files that it was read from.
struct WithFiles {
  TokenizerFolder folder;
  std::shared_ptr<const data::Tokenizer> tokenizer = nullptr;
};

/// The one named "default" has a separate file.
void write_chat_template(const fs::path& folder, const std::string& name, const std::string& text) {
  if (name == "default") return write_file_atomically(folder / data::kChatTemplateFile, text);
  fs::create_directory(folder / data::kChatTemplateFolder);
  write_file_atomically(folder / data::kChatTemplateFolder / (name + ".jinja"), text);
}

}  // namespace

std::shared_ptr<const data::Tokenizer> open_gguf_tokenizer(const fs::path& file,
                                                           const std::string& what) {
  const auto read = models::read_gguf_tokenizer(file);
  if (!read) return nullptr;
  const auto made = std::make_shared<WithFiles>();
  const fs::path folder = made->folder.path();
  write_file_atomically(folder / data::kTokenizerFile, read->tokenizer);
  write_file_atomically(folder / data::kTokenizerSettings, read->settings);
  for (const auto& [name, text] : read->chat_templates) write_chat_template(folder, name, text);
  made->tokenizer = data::Tokenizer::open(folder / data::kTokenizerFile,
                                          what + " (the tokenizer in " + file.string() + ")");
  return {made, made->tokenizer.get()};
}

}  // namespace accrue::train
