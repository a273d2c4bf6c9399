#include "cli/carried_files.h"

#include <string>
#include <vector>

#include "core/atomic_file.h"

namespace accrue::cli {

void carry_files(const std::filesystem::path& from, const std::filesystem::path& out,
                 bool with_tokenizer) {
  std::vector<std::string> names{"generation_config.json"};
  if (with_tokenizer)
    names.insert(names.end(), {"tokenizer.json", "tokenizer_config.json", "tokenizer.model",
                               "vocab.json", "vocab.txt", "merges.txt", "special_tokens_map.json",
                               "added_tokens.json", "chat_template.jinja"});
  std::error_code unreadable;
  for (const std::string& name : names)
    if (std::filesystem::is_regular_file(from / name, unreadable) &&
        !std::filesystem::exists(out / name, unreadable))
      write_file_atomically(out / name, read_file(from / name));
}

}  // namespace accrue::cli
