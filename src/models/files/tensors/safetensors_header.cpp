#include "models/files/tensors/safetensors_header.h"

#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>

namespace accrue::models {
namespace {

struct NamedDtype {
  std::string_view name;
  at::ScalarType dtype;
};

constexpr std::array<NamedDtype, 11> dtypes{{{"F32", at::kFloat},
                                             {"F64", at::kDouble},
                                             {"F16", at::kHalf},
                                             {"BF16", at::kBFloat16},
                                             {"C64", at::kComplexFloat},
                                             {"I64", at::kLong},
                                             {"I32", at::kInt},
                                             {"I16", at::kShort},
                                             {"I8", at::kChar},
                                             {"U8", at::kByte},
                                             {"BOOL", at::kBool}}};
constexpr std::string_view dtype_list =
    "one of F32, F64, F16, BF16, C64, I64, I32, I16, I8, U8 and BOOL";
constexpr std::size_t longest_quote = 160;
constexpr std::size_t most_numbers = 64;  // what ATen's iterators can walk

/// A damaged header can hold a name of many megabytes, which must not become the message.
std::string quote(std::string_view text) {
  return std::string(text.substr(0, longest_quote)) + (text.size() > longest_quote ? "..." : "");
}

/// Receives the header's JSON as a stream of events and knows after each one what may follow. A
/// document tree would lose duplicate names and be built in full before the first check.
class TensorsHeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit TensorsHeaderReader(const std::string& file) : file_(file) {}

  SafetensorsHeader take() { return std::move(header_); }

  bool null() override { unexpected("null"); }
  bool boolean(bool value) override { unexpected(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { unexpected(std::to_string(value)); }
  bool number_float(number_float_t, const string_t& text) override { unexpected(quote(text)); }
  bool binary(binary_t&) override { unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::numbers) unexpected(std::to_string(value));
    if (value > static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max()))
      unexpected(std::to_string(value));
    if (numbers_.size() == most_numbers) unexpected("more of them");
    numbers_.push_back(static_cast<std::int64_t>(value));
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::metadata) {
      header_.metadata[field_] = value;
    } else if (place_ == Place::tensor && field_ == "dtype") {
      set_dtype(value);
    } else {
      unexpected('"' + quote(value) + '"');
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::outside) {
      place_ = Place::tensors;
    } else if (place_ == Place::tensors) {
      place_ = name_ == "__metadata__" ? Place::metadata : Place::tensor;
      if (place_ == Place::tensor) header_.tensors.emplace_back().name = name_;
      fields_.clear();
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool key(string_t& value) override {
    if (place_ == Place::tensors) {
      name_ = value;
      if (!names_.insert(value).second) throw damaged(file_, name_, "each name once", "it twice");
      return true;
    }
    field_ = value;
    if (!fields_.insert(value).second)
      throw damaged(file_, name_, "each field once", '"' + quote(value) + "\" twice");
    if (place_ == Place::tensor && value != "dtype" && value != "shape" && value != "data_offsets")
      throw damaged(file_, name_, "the fields dtype, shape and data_offsets", quote(value));
    return true;
  }

  bool end_object() override {
    if (place_ == Place::tensor) {
      for (const char* field : {"dtype", "shape", "data_offsets"})
        if (!fields_.contains(field))
          throw damaged(file_, name_, "the fields dtype, shape and data_offsets",
                        std::string("no ") + field);
    }
    place_ = place_ == Place::tensors ? Place::outside : Place::tensors;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ != Place::tensor || field_ == "dtype") unexpected("an array");
    place_ = Place::numbers;
    numbers_.clear();
    return true;
  }

  bool end_array() override {
    place_ = Place::tensor;
    TensorEntry& tensor = header_.tensors.back();
    if (field_ == "shape") {
      tensor.shape = numbers_;
    } else {
      if (numbers_.size() != 2)
        throw damaged(file_, name_, "two data_offsets", std::to_string(numbers_.size()));
      tensor.begin = numbers_[0];
      tensor.end = numbers_[1];
    }
    return true;
  }

  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::json::exception& error) override {
    throw damaged(file_, {}, "a header in JSON", quote(error.what()));
  }

 private:
  enum class Place { outside, tensors, tensor, metadata, numbers };

  [[noreturn]] void unexpected(const std::string& received) const {
    throw damaged(file_, place_ == Place::outside ? std::string() : name_, expected_here(),
                  received);
  }

  std::string expected_here() const {
    switch (place_) {
      case Place::outside:
        return "a JSON object of tensors as the header";
      case Place::tensors:
        return "an object with dtype, shape and data_offsets";
      case Place::metadata:
        return "text as the value of \"" + quote(field_) + '"';
      case Place::tensor:
        return field_ == "dtype" ? std::string(dtype_list) : "an array as " + field_;
      case Place::numbers:
        break;
    }
    return "at most " + std::to_string(most_numbers) + " numbers in [0, 2^63) in " + field_;
  }

  void set_dtype(const std::string& name) {
    for (const NamedDtype& known : dtypes) {
      if (known.name == name) {
        header_.tensors.back().dtype = known.dtype;
        return;
      }
    }
    throw damaged(file_, name_, dtype_list, quote(name));
  }

  const std::string& file_;
  SafetensorsHeader header_;
  Place place_ = Place::outside;
  std::string name_, field_;
  std::unordered_set<std::string> names_, fields_;
  std::vector<std::int64_t> numbers_;
};

/// The tensor's size by its shape. A dimension of 0 counts as 1 for the overflow check, because
/// strides are computed from the others anyway.
std::int64_t bytes_of(const TensorEntry& tensor, const std::string& file) {
  auto bytes = static_cast<std::int64_t>(c10::elementSize(tensor.dtype));
  bool empty = false;
  for (const std::int64_t size : tensor.shape) {
    empty = empty || size == 0;
    if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(size, 1), &bytes))
      throw damaged(file, tensor.name, "a shape of fewer than 2^63 bytes", "a larger one");
  }
  return empty ? 0 : bytes;
}

void check_size(const TensorEntry& tensor, const std::string& file) {
  const std::int64_t by_shape = bytes_of(tensor, file);
  if (tensor.begin <= tensor.end && tensor.end - tensor.begin == by_shape) return;
  throw damaged(file, tensor.name,
                "data_offsets that span the " + std::to_string(by_shape) + " bytes of its shape",
                '[' + std::to_string(tensor.begin) + ", " + std::to_string(tensor.end) + ']');
}

}  // namespace

Error damaged(const std::string& file, std::string_view tensor, std::string_view expected,
              std::string_view received) {
  std::string operation = "read " + file;
  if (!tensor.empty()) operation += ", tensor \"" + quote(tensor) + '"';
  return usage_error(operation, expected, received,
                     "another copy of the file: this one is damaged or not safetensors");
}

SafetensorsHeader parse_header(std::string_view text, const std::string& file) {
  TensorsHeaderReader reader(file);
  nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
  return reader.take();
}

void check_layout(const SafetensorsHeader& header, std::int64_t data_bytes,
                  const std::string& file) {
  std::vector<const TensorEntry*> by_offset;
  for (const TensorEntry& tensor : header.tensors) {
    check_size(tensor, file);
    by_offset.push_back(&tensor);
  }
  std::sort(by_offset.begin(), by_offset.end(), [](const TensorEntry* a, const TensorEntry* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  std::int64_t filled = 0;
  for (const TensorEntry* tensor : by_offset) {
    if (tensor->begin != filled) {
      throw damaged(file, tensor->name, "data that begins at byte " + std::to_string(filled),
                    std::to_string(tensor->begin) + (tensor->begin < filled
                                                         ? ": it overlaps the tensor before it"
                                                         : ": a gap behind the tensor before it"));
    }
    if (tensor->end > data_bytes)
      throw damaged(file, tensor->name,
                    "data up to byte " + std::to_string(tensor->end) + " behind the header",
                    std::to_string(data_bytes) + " bytes: the file was cut short");
    filled = tensor->end;
  }
  if (filled != data_bytes)
    throw damaged(file, {}, "the end of the file behind the last tensor",
                  std::to_string(data_bytes - filled) + " bytes more");
}

std::string_view dtype_name(at::ScalarType dtype, const std::string& what) {
  for (const NamedDtype& known : dtypes)
    if (known.dtype == dtype) return known.name;
  throw usage_error(what, dtype_list, c10::toString(dtype), "converting the tensor first");
}

}  // namespace accrue::models
