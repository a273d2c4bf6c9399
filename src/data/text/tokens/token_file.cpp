#include "data/text/tokens/token_file.h"

#include <array>
#include <bit>
#include <span>
#include <string>

#include "accrue/core/error.h"

namespace accrue::data {
namespace {

static_assert(std::endian::native == std::endian::little,
              "token files are little-endian and are read as they are");

// llm.c's dev/data/data_common.py: 256 int32, of which three are used.
constexpr std::int64_t header_bytes = 256 * 4;

struct HeaderKind {
  std::int32_t magic;
  std::int32_t version;
  std::int64_t width;
};
constexpr std::array header_kinds{HeaderKind{20240520, 1, 2}, HeaderKind{20240801, 7, 4}};

/// A token file under inspection, so that all its errors have one form.
class Inspection {
 public:
  Inspection(const FilePool& files, std::size_t file, const std::string& what)
      : files_(files), file_(file), what_(what), bytes_(files.bytes(file)) {}

  TokenLayout layout() const {
    if (bytes_ == 0) throw refusal("token files that hold tokens", "an empty file");
    for (const HeaderKind& kind : header_kinds)
      if (bytes_ >= 4 && word(0) == kind.magic) return layout_after_header(kind);
    return layout_without_header();
  }

 private:
  TokenLayout layout_without_header() const {
    if (bytes_ % 2 != 0) {
      throw refusal("16-bit tokens (no llm.c header was found)",
                    std::to_string(bytes_) + " bytes, an odd number");
    }
    return {0, bytes_ / 2, 2};
  }

  TokenLayout layout_after_header(const HeaderKind& kind) const {
    if (bytes_ < header_bytes) {
      throw refusal("llm.c's header of " + std::to_string(header_bytes) + " bytes",
                    std::to_string(bytes_) + " bytes");
    }
    if (word(1) != kind.version) {
      throw refusal("version " + std::to_string(kind.version) + " of magic number " +
                        std::to_string(kind.magic),
                    "version " + std::to_string(word(1)));
    }
    const std::int64_t tokens = word(2);
    if (tokens <= 0)
      throw refusal("token files that hold tokens", "a header that says " + std::to_string(tokens));
    const std::int64_t expected_bytes = header_bytes + tokens * kind.width;
    if (bytes_ != expected_bytes) {
      throw refusal(std::to_string(expected_bytes) + " bytes, as its header says (" +
                        std::to_string(tokens) + " tokens)",
                    std::to_string(bytes_) + " bytes");
    }
    return {header_bytes, tokens, kind.width};
  }

  std::int32_t word(std::int64_t index) const {
    std::int32_t value = 0;
    files_.read(file_, 4 * index, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }

  Error refusal(const std::string& expected, const std::string& received) const {
    return usage_error(what_, expected, files_.path(file_).string() + ": " + received,
                       "writing the file again: it is truncated, corrupt or no token file");
  }

  const FilePool& files_;
  std::size_t file_;
  const std::string& what_;
  std::int64_t bytes_;
};

}  // namespace

std::string token_header(std::int64_t tokens, std::int64_t width) {
  std::array<std::int32_t, header_bytes / 4> words{};
  for (const HeaderKind& kind : header_kinds)
    if (kind.width == width) words = {kind.magic, kind.version, static_cast<std::int32_t>(tokens)};
  return {reinterpret_cast<const char*>(words.data()), header_bytes};
}

TokenLayout text_layout(const FilePool& files, std::size_t file) {
  return {0, files.bytes(file), 1};
}

TokenLayout token_layout(const FilePool& files, std::size_t file, const std::string& what) {
  return Inspection(files, file, what).layout();
}

}  // namespace accrue::data
