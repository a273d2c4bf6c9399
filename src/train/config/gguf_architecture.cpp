#include "train/config/gguf_architecture.h"

#include <array>
#include <cstdint>
#include <istream>
#include <string_view>

#include "accrue/models/gguf_magic.h"
#include "core/open_file.h"

namespace accrue::train {
namespace {

/// Types of values, by their numbers in the format.
constexpr std::uint32_t type_of_text = 8, type_of_array = 9;
/// Bytes of a value of each type; 0: stored with the value.
constexpr std::array<std::uint8_t, 13> value_bytes{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

/// Reads keys one after the other. The stream fails at the end of the file, and at invalid data.
class KeyReader {
 public:
  explicit KeyReader(std::istream& file) : file_(file) {}

  template <class T>
  T number() {
    T value = 0;
    file_.read(reinterpret_cast<char*>(&value), sizeof value);
    return value;
  }

  std::string text() {
    constexpr std::uint64_t longest = 1 << 16;
    const auto length = number<std::uint64_t>();
    if (length > longest) file_.setstate(std::ios::failbit);
    if (!file_) return {};
    std::string text(length, '\0');
    file_.read(text.data(), std::ssize(text));
    return file_ ? text : "";
  }

  void skip_value(std::uint32_t type) {
    if (type == type_of_text) return skip(number<std::uint64_t>());
    if (type == type_of_array) return skip_array();
    if (type >= value_bytes.size()) return file_.setstate(std::ios::failbit);
    skip(value_bytes[type]);
  }

 private:
  void skip(std::uint64_t bytes) {
    constexpr std::uint64_t most = std::uint64_t{1} << 40;
    if (bytes > most) return file_.setstate(std::ios::failbit);
    file_.seekg(static_cast<std::streamoff>(bytes), std::ios::cur);
    file_.peek();  // seeking beyond the end is not a failure
  }

  void skip_array() {
    const auto type = number<std::uint32_t>();
    const auto count = number<std::uint64_t>();
    constexpr std::uint64_t most = std::uint64_t{1} << 36;
    const bool is_known = type < value_bytes.size() && type != type_of_array && count <= most;
    if (!is_known) return file_.setstate(std::ios::failbit);
    if (type != type_of_text) return skip(count * value_bytes[type]);
    for (std::uint64_t i = 0; i < count && file_; ++i) skip(number<std::uint64_t>());
  }

  std::istream& file_;
};

}  // namespace

std::string gguf_architecture(const std::filesystem::path& path) {
  std::ifstream file = stream_to_read(path);
  KeyReader reader(file);
  std::string magic(models::gguf_magic.size(), '\0');
  file.read(magic.data(), std::ssize(magic));
  if (magic != models::gguf_magic) return {};
  reader.number<std::uint32_t>();  // version
  reader.number<std::uint64_t>();  // tensors
  const auto keys = reader.number<std::uint64_t>();
  for (std::uint64_t i = 0; i < keys && file; ++i) {
    const std::string name = reader.text();
    const auto type = reader.number<std::uint32_t>();
    if (name == "general.architecture" && type == type_of_text) return reader.text();
    reader.skip_value(type);
  }
  return {};
}

}  // namespace accrue::train
