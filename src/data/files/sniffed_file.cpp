#include "data/files/sniffed_file.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "accrue/core/error.h"
#include "data/files/file_pool.h"
#include "data/files/sniffed_format.h"
#include "data/files/suffix.h"

namespace accrue::data {
namespace {

constexpr const char* json_is = "JSON, which trains as the text it is, braces and all";
constexpr const char* json_advice =
    "JSON lines (.jsonl, an object with \"text\" per line), data.format = \"jsonl\" if these are "
    "such lines, or data.format = \"text\"";

/// The meaning of a suffix, and what to do with such a file.
struct SuffixKind {
  std::string_view suffixes;  ///< with their dots, spaces around each
  const char* is;
  const char* advice;
};

constexpr std::array suffix_kinds{
    SuffixKind{" .gz .bz2 .xz .zst .lz4 ", "compressed", "the file without its compression"},
    SuffixKind{" .zip .tar .tgz .7z ", "an archive", "the files in it"},
    SuffixKind{" .arrow .feather .orc .avro .xls .xlsx .ods ", "a table in columns",
               "its text column written as JSON lines (.jsonl)"},
    SuffixKind{" .json .json5 .jsonc .jsonld .geojson .topojson ", json_is, json_advice},
    SuffixKind{" .ipynb ", "a notebook, whose JSON trains as the text it is, braces and all",
               "its cells written as text, or data.format = \"text\""},
    SuffixKind{" .csv .tsv ", "a table, which trains as the text it is, separators and all",
               "its text column written as JSON lines (.jsonl), or data.format = \"text\""},
    SuffixKind{" .xml ", "XML, which trains as the text it is, tags and all",
               "its text in a file, or data.format = \"text\""},
    SuffixKind{" .npy .npz .pt .pth .pkl .safetensors .h5 .gguf ", "arrays",
               "token files (.bin), or data.format = \"tokens\""},
    SuffixKind{" .pdf .doc .docx .odt .epub ", "a document", "its text in a file"},
};

const SuffixKind* suffix_kind_of(const std::filesystem::path& path) {
  const std::string suffix = suffix_of(path);
  if (suffix.empty()) return nullptr;
  const auto found = std::ranges::find_if(suffix_kinds, [&](const SuffixKind& kind) {
    return kind.suffixes.find(" " + suffix + " ") != std::string_view::npos;
  });
  return found == suffix_kinds.end() ? nullptr : &*found;
}

/// The first bytes of a file, and more if those are not enough to classify it.
class FileBeginning {
 public:
  FileBeginning(const FilePool& files, std::size_t file) : files_(files), file_(file) {
    read(first_bytes);
  }

  bool has_zero_byte() const {
    const std::string_view first = std::string_view(bytes_).substr(0, first_bytes);
    return first.find('\0') != first.npos;
  }

  SniffedFormat kind() {
    SniffedFormat kind = sniff_format(bytes_, is_all());
    if (kind != SniffedFormat::unclear) return kind;
    read(most_sniffed_bytes);
    return sniff_format(bytes_, is_all());
  }

 private:
  static constexpr std::size_t first_bytes = 4096;

  bool is_all() const { return std::ssize(bytes_) == files_.bytes(file_); }

  void read(std::size_t most) {
    bytes_.resize(std::min(static_cast<std::size_t>(files_.bytes(file_)), most));
    files_.read(file_, 0, std::as_writable_bytes(std::span(bytes_)));
  }

  const FilePool& files_;
  std::size_t file_;
  std::string bytes_;
};

SniffedFile sniff_bytes(const FilePool& files, std::size_t file) {
  FileBeginning beginning(files, file);
  if (beginning.has_zero_byte())
    return {.is = "a binary file, with zero bytes",
            .advice =
                "the format that it has in data.format, or data.format = \"text\" to take "
                "its bytes as text"};
  switch (beginning.kind()) {
    case SniffedFormat::json_lines:
      return {.format = Format::jsonl, .is = "", .advice = ""};
    case SniffedFormat::json_document:
      return {.is = json_is, .advice = json_advice};
    case SniffedFormat::unclear:
      return {.is = "a first line of more than 1 MiB that may be JSON",
              .advice = "data.format = \"jsonl\" or \"text\""};
    default:
      return {};
  }
}

}  // namespace

std::vector<SniffedFile> sniff_files(const std::vector<std::filesystem::path>& paths,
                                     const std::string& what) {
  std::vector<SniffedFile> looks(paths.size());
  std::vector<std::filesystem::path> unnamed;  // files whose names do not show their contents
  std::vector<std::size_t> places;             // of these among all
  for (std::size_t i = 0; i < paths.size(); ++i) {
    looks[i].format = format_by_suffix(paths[i]);
    if (looks[i].format != Format::text) continue;
    if (const SuffixKind* const kind = suffix_kind_of(paths[i])) {
      looks[i].is = kind->is;
      looks[i].advice = kind->advice;
      continue;
    }
    unnamed.push_back(paths[i]);
    places.push_back(i);
  }
  const FilePool files(unnamed, what);
  for (std::size_t file = 0; file < files.count(); ++file)
    looks[places[file]] = sniff_bytes(files, file);
  return looks;
}

void refuse_non_text(const std::vector<std::filesystem::path>& paths,
                     const std::vector<SniffedFile>& looks, const std::string& what) {
  const auto found =
      std::ranges::find_if(looks, [](const SniffedFile& look) { return !look.is.empty(); });
  if (found == looks.end()) return;
  throw usage_error(
      what, "text",
      paths.at(static_cast<std::size_t>(found - looks.begin())).string() + ": " + found->is,
      found->advice + ", or a glob that leaves it out");
}

}  // namespace accrue::data
