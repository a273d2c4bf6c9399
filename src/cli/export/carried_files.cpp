#include "cli/export/carried_files.h"

#include <string>
#include <vector>

#include "core/atomic_file.h"
#include "data/tokenizer/folder/tokenizer_files.h"

namespace accrue::cli {

void copy_tokenizer(const std::filesystem::path& tokenizer_file, const std::filesystem::path& out) {
  for (const data::TokenizerPart& part : data::files_of_tokenizer(tokenizer_file)) {
    const std::filesystem::path copy = out / part.name;
    std::filesystem::create_directories(copy.parent_path());
    write_file_atomically(copy, read_file(part.file));
  }
}

void carry_vocabulary(const std::filesystem::path& from, const std::filesystem::path& out,
                      bool with_settings) {
  std::vector<std::string> names{"tokenizer.model", "vocab.json", "vocab.txt", "merges.txt"};
  if (with_settings)
    names.insert(names.end(),
                 {data::kTokenizerSettings, data::kSpecialTokensMap, data::kAddedTokens,
                  data::kChatTemplateFile, data::kProcessorTemplate});
  std::error_code unreadable;
  for (const std::string& name : names)
    if (std::filesystem::is_regular_file(from / name, unreadable) &&
        !std::filesystem::exists(out / name, unreadable))
      write_file_atomically(out / name, read_file(from / name));
}

}  // namespace accrue::cli
