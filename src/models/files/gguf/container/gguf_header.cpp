#include "models/files/gguf/container/gguf_header.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <unordered_set>

namespace accrue::models {
namespace {

/// The largest known ones have 20 MB, nearly all of it the tokens.
constexpr std::int64_t largest_gguf_header_bytes = 128 << 20;
constexpr std::int64_t most_dimensions = 4;  // ggml's
constexpr std::int64_t largest_alignment = 1 << 20;

/// Reads one value after the other, none of them beyond the file.
class HeaderBytes {
 public:
  explicit HeaderBytes(const InputFile& file)
      : file_(file), limit_(std::min(file.bytes(), largest_gguf_header_bytes)) {}

  std::int64_t position() const { return position_; }

  /// Throws unless `count` items of at least `bytes` each may follow. `place` names what they
  /// belong to.
  void expect(std::uint64_t count, std::int64_t bytes, const std::string& place) const {
    if (count <= static_cast<std::uint64_t>((limit_ - position_) / bytes)) return;
    throw damaged_gguf(file_.name(), place,
                       "a header of at most " + std::to_string(limit_) + " bytes (the file has " +
                           std::to_string(file_.bytes()) + ')',
                       std::to_string(count) + " times " + std::to_string(bytes) +
                           " bytes or more behind byte " + std::to_string(position_));
  }

  template <class T>
  T number(const std::string& place) {
    expect(1, sizeof(T), place);
    T value;
    copy(&value, sizeof value);
    return value;
  }

  std::string text(const std::string& place) {
    const auto length = number<std::uint64_t>(place);
    expect(length, 1, place);
    std::string text(length, '\0');
    copy(text.data(), static_cast<std::int64_t>(length));
    return text;
  }

 private:
  void copy(void* to, std::int64_t count) {
    auto* out = static_cast<char*>(to);
    while (count > 0) {
      if (position_ == buffer_begin_ + std::ssize(buffer_)) refill();
      const std::int64_t within = position_ - buffer_begin_;
      const std::int64_t piece = std::min(count, std::ssize(buffer_) - within);
      std::memcpy(out, buffer_.data() + within, static_cast<std::size_t>(piece));
      position_ += piece;
      out += piece;
      count -= piece;
    }
  }

  void refill() {
    constexpr std::int64_t piece_bytes = 1 << 16;
    buffer_begin_ = position_;
    buffer_.resize(static_cast<std::size_t>(std::min(piece_bytes, limit_ - position_)));
    file_.read_at(position_, buffer_.data(), std::ssize(buffer_));
  }

  const InputFile& file_;
  std::int64_t limit_, position_ = 0;
  std::string buffer_;
  std::int64_t buffer_begin_ = 0;
};

/// The decimal number with the fewest digits that rounds to this float.
double shortest(float value) {
  if (!std::isfinite(value)) return value;
  std::array<char, 32> digits{};
  const char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  double decimal = 0;
  std::from_chars(digits.data(), end, decimal);
  return decimal;
}

class HeaderReader {
 public:
  explicit HeaderReader(const InputFile& file) : file_(file), bytes_(file) {}

  GgufHeader read() {
    const auto [tensors, keys] = read_counts();
    GgufHeader header;
    for (std::uint64_t i = 0; i < keys; ++i) read_key(header.keys);
    for (std::uint64_t i = 0; i < tensors; ++i) header.tensors.push_back(read_tensor());
    place(header);
    return header;
  }

 private:
  struct Counts {
    std::uint64_t tensors, keys;
  };

  Counts read_counts() {
    constexpr std::int64_t smallest_tensor = 8 + 4 + 4 + 8, smallest_key = 8 + 4 + 1;
    std::string magic(gguf_magic.size(), '\0');
    for (char& letter : magic) letter = bytes_.number<char>("its beginning");
    if (magic != gguf_magic)
      throw damaged_gguf(file_.name(), "", "a file that begins with GGUF", "another one");
    const auto version = bytes_.number<std::uint32_t>("its version");
    if (version != 2 && version != gguf_version)
      throw usage_error("read " + file_.name(), "GGUF of version 2 or 3, little-endian",
                        "version " + std::to_string(version),
                        "a file that today's converters wrote");
    const auto tensors = bytes_.number<std::uint64_t>("the number of tensors");
    const auto keys = bytes_.number<std::uint64_t>("the number of keys");
    bytes_.expect(keys, smallest_key, "its keys");
    bytes_.expect(tensors, smallest_tensor, "its tensors");
    return {tensors, keys};
  }

  void read_key(GgufKeys& keys) {
    std::string name = bytes_.text("a key's name");
    const std::string where = "key " + quoted_gguf_text(name);
    GgufValue value = read_value(bytes_.number<std::uint32_t>(where), where);
    if (!keys.emplace(std::move(name), std::move(value)).second)
      throw damaged_gguf(file_.name(), where, "each key once", "it twice");
  }

  [[noreturn]] void refuse_type(std::uint32_t type, const std::string& where) const {
    throw damaged_gguf(file_.name(), where, "a type of value from 0 to 12, no array in an array",
                       "type " + std::to_string(type));
  }

  template <class T>
  std::int64_t whole(const std::string& where) {
    const T value = bytes_.number<T>(where);
    if constexpr (std::is_same_v<T, std::uint64_t>)
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        throw damaged_gguf(file_.name(), where, "a number below 2^63", std::to_string(value));
    return static_cast<std::int64_t>(value);
  }

  /// A whole number of type `type`; none if that is the type of something else.
  std::optional<std::int64_t> read_whole(GgufValueType type, const std::string& where) {
    using enum GgufValueType;
    switch (type) {
      case uint8:
        return whole<std::uint8_t>(where);
      case int8:
        return whole<std::int8_t>(where);
      case uint16:
        return whole<std::uint16_t>(where);
      case int16:
        return whole<std::int16_t>(where);
      case uint32:
        return whole<std::uint32_t>(where);
      case int32:
        return whole<std::int32_t>(where);
      case uint64:
        return whole<std::uint64_t>(where);
      case int64:
        return whole<std::int64_t>(where);
      default:
        return std::nullopt;
    }
  }

  bool read_flag(const std::string& where) {
    const auto byte = bytes_.number<std::uint8_t>(where);
    if (byte > 1)
      throw damaged_gguf(file_.name(), where, "bytes 0 and 1 as bool", std::to_string(byte));
    return byte == 1;
  }

  GgufValue read_value(std::uint32_t number, const std::string& where) {
    const auto type = static_cast<GgufValueType>(number);
    if (const auto value = read_whole(type, where)) return *value;
    switch (type) {
      case GgufValueType::float32:
        return shortest(bytes_.number<float>(where));
      case GgufValueType::float64:
        return bytes_.number<double>(where);
      case GgufValueType::boolean:
        return read_flag(where);
      case GgufValueType::text:
        return bytes_.text(where);
      case GgufValueType::array:
        return read_array(where);
      default:
        refuse_type(number, where);
    }
  }

  /// Flags become whole numbers.
  GgufValue read_array(const std::string& where) {
    const auto number = bytes_.number<std::uint32_t>(where);
    const auto type = static_cast<GgufValueType>(number);
    const auto count = bytes_.number<std::uint64_t>(where);
    switch (type) {
      case GgufValueType::text:
        return list<std::string>(count, 8, where, [&] { return bytes_.text(where); });
      case GgufValueType::float32:
        return list<double>(count, 4, where, [&] { return shortest(bytes_.number<float>(where)); });
      case GgufValueType::float64:
        return list<double>(count, 8, where, [&] { return bytes_.number<double>(where); });
      case GgufValueType::boolean:
        return list<std::int64_t>(count, 1, where, [&] { return std::int64_t{read_flag(where)}; });
      default:
        return list<std::int64_t>(count, 1, where, [&] {
          const auto value = read_whole(type, where);
          if (!value) refuse_type(number, where);
          return *value;
        });
    }
  }

  template <class T, class Read>
  std::vector<T> list(std::uint64_t count, std::int64_t smallest, const std::string& where,
                      const Read& read) {
    bytes_.expect(count, smallest, where);
    std::vector<T> values;
    values.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) values.push_back(read());
    return values;
  }

  /// The offset is still relative to the beginning of the tensors' bytes.
  GgufTensor read_tensor() {
    GgufTensor tensor;
    tensor.name = bytes_.text("a tensor's name");
    const std::string where = "tensor " + quoted_gguf_text(tensor.name);
    if (!names_.insert(tensor.name).second)
      throw damaged_gguf(file_.name(), where, "each tensor once", "it twice");
    const auto dimensions = bytes_.number<std::uint32_t>(where);
    if (dimensions > most_dimensions)
      throw damaged_gguf(file_.name(), where,
                         "at most " + std::to_string(most_dimensions) + " dimensions",
                         std::to_string(dimensions));
    for (std::uint32_t i = 0; i < dimensions; ++i)
      tensor.shape.insert(tensor.shape.begin(), whole<std::uint64_t>(where));
    const auto number = bytes_.number<std::uint32_t>(where);
    const GgufTypeTraits* traits = find_gguf_type(number);
    if (traits == nullptr)
      throw usage_error("read " + file_.name() + ", " + where,
                        "a type that this version reads (" + listed_gguf_types() + ')',
                        "ggml's type " + std::to_string(number),
                        "the model in one of these, F16 or Q8_0 say");
    tensor.type = traits->type;
    measure(tensor, *traits, where);
    tensor.offset = whole<std::uint64_t>(where);
    return tensor;
  }

  void measure(GgufTensor& tensor, const GgufTypeTraits& traits, const std::string& where) const {
    tensor.elements = 1;
    std::int64_t extent = 1;  // sizes of 0 next to large ones make large strides
    for (const std::int64_t size : tensor.shape) {
      const std::int64_t at_least_one = std::max<std::int64_t>(size, 1);
      // In no type an element has less than half a byte.
      if (extent > 2 * file_.bytes() / at_least_one)
        throw damaged_gguf(file_.name(), where,
                           "a size that fits into the file's " + std::to_string(file_.bytes()) +
                               " bytes: it was cut short",
                           "more");
      tensor.elements *= size;
      extent *= at_least_one;
    }
    const std::int64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
    if (row % traits.elements != 0)
      throw damaged_gguf(file_.name(), where,
                         "rows of whole blocks of " + std::to_string(traits.elements) + " for " +
                             std::string(traits.name),
                         "rows of " + std::to_string(row));
    tensor.bytes = tensor.elements / traits.elements * traits.bytes;
  }

  std::int64_t alignment(const GgufKeys& keys) const {
    const auto stated = keys.find("general.alignment");
    if (stated == keys.end()) return gguf_usual_alignment;
    const auto* value = std::get_if<std::int64_t>(&stated->second);
    if (value == nullptr || *value < 1 || *value > largest_alignment ||
        !std::has_single_bit(static_cast<std::uint64_t>(*value)))
      throw damaged_gguf(file_.name(), "key \"general.alignment\"",
                         "a power of two, at most " + std::to_string(largest_alignment),
                         value == nullptr ? "something else" : std::to_string(*value));
    return *value;
  }

  /// Sets the tensors' positions in the file.
  void place(GgufHeader& header) const {
    const std::int64_t step = alignment(header.keys);
    const std::int64_t data = (bytes_.position() + step - 1) / step * step;
    std::vector<GgufTensor*> by_offset;
    for (GgufTensor& tensor : header.tensors) {
      const std::string where = "tensor " + quoted_gguf_text(tensor.name);
      if (tensor.offset % step != 0)
        throw damaged_gguf(file_.name(), where,
                           "an offset that is a multiple of " + std::to_string(step),
                           std::to_string(tensor.offset));
      if (tensor.offset > file_.bytes() - data - tensor.bytes)
        throw damaged_gguf(file_.name(), where,
                           std::to_string(tensor.bytes) + " bytes from byte " +
                               std::to_string(tensor.offset) + " of the tensors' on",
                           "a file of " + std::to_string(file_.bytes()) + " bytes, its header " +
                               std::to_string(data) + " of them: it was cut short");
      tensor.offset += data;
      by_offset.push_back(&tensor);
    }
    check_overlap(by_offset);
  }

  void check_overlap(std::vector<GgufTensor*>& tensors) const {
    std::sort(tensors.begin(), tensors.end(), [](const GgufTensor* a, const GgufTensor* b) {
      return std::pair(a->offset, a->bytes) < std::pair(b->offset, b->bytes);
    });
    for (std::size_t i = 1; i < tensors.size(); ++i)
      if (tensors[i]->offset < tensors[i - 1]->offset + tensors[i - 1]->bytes)
        throw damaged_gguf(file_.name(), "tensor " + quoted_gguf_text(tensors[i]->name),
                           "bytes of its own",
                           "some that are also those of " + quoted_gguf_text(tensors[i - 1]->name));
  }

  const InputFile& file_;
  HeaderBytes bytes_;
  std::unordered_set<std::string> names_;
};

}  // namespace

GgufHeader read_gguf_header(const InputFile& file) { return HeaderReader(file).read(); }

}  // namespace accrue::models
