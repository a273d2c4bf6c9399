#include "data/text/no_text.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "accrue/core/error.h"
#include "data/files/file_pool.h"
#include "data/files/suffix.h"

namespace accrue::data {
namespace {

/// What a suffix says that a file is, and what to do with it.
struct Kind {
  std::string_view suffixes;  ///< with their dots, spaces around each
  const char* is;
  const char* advice;
};

constexpr std::array kinds{
    Kind{" .gz .bz2 .xz .zst .lz4 ", "compressed", "the file without its compression"},
    Kind{" .zip .tar .tgz .7z ", "an archive", "the files in it"},
    Kind{" .arrow .feather ", "a table in columns",
         "its text column written as JSON lines (.jsonl)"},
    Kind{" .json ", "JSON, which trains as the text it is, braces and all",
         "JSON lines (.jsonl, an object with \"text\" per line), or data.format = \"text\""},
    Kind{" .csv .tsv ", "a table, which trains as the text it is, separators and all",
         "its text column written as JSON lines (.jsonl), or data.format = \"text\""},
    Kind{" .npy .npz .pt .pth .pkl .safetensors .h5 .gguf ", "arrays",
         "token files (.bin), or data.format = \"tokens\""},
    Kind{" .pdf .docx .odt .epub ", "a document", "its text in a file"},
};

const Kind* kind_of(const std::filesystem::path& path) {
  const std::string suffix = suffix_of(path);
  if (suffix.empty()) return nullptr;
  const auto found = std::ranges::find_if(kinds, [&](const Kind& kind) {
    return kind.suffixes.find(" " + suffix + " ") != std::string_view::npos;
  });
  return found == kinds.end() ? nullptr : &*found;
}

bool has_an_early_zero_byte(const FilePool& files, std::size_t file) {
  constexpr std::int64_t looked_at = 4096;
  std::vector<std::byte> bytes(static_cast<std::size_t>(std::min(files.bytes(file), looked_at)));
  files.read(file, 0, bytes);
  return std::ranges::find(bytes, std::byte{0}) != bytes.end();
}

}  // namespace

void refuse_what_is_no_text(const std::vector<std::filesystem::path>& paths,
                            const std::string& what) {
  const FilePool files(paths, what);
  for (std::size_t file = 0; file < files.count(); ++file) {
    const std::string name = files.path(file).string();
    if (const Kind* kind = kind_of(files.path(file)))
      throw usage_error(what, "text", name + ": " + kind->is,
                        std::string(kind->advice) + ", or a glob that leaves it out");
    if (has_an_early_zero_byte(files, file))
      throw usage_error(what, "text", name + ": a binary file, with zero bytes",
                        "a glob that leaves it out, the format that it has in data.format, or "
                        "data.format = \"text\" to train on its bytes");
  }
}

}  // namespace accrue::data
