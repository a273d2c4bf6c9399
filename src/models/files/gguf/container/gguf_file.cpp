#include "models/files/gguf/container/gguf_file.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "kernels/blocks/block_matrix.h"

namespace accrue::models {
namespace {

/// The position of one tensor's values.
struct StoredValues {
  GgufFile file;
  GgufTensor tensor;

  const GgufTypeTraits& traits() const { return traits_of(tensor.type); }

  void read_into(const at::Tensor& values) const {
    if (traits().blocks)
      unpack_into(values.mutable_data_ptr<float>());
    else if (tensor.bytes > 0)
      file.read_bytes(tensor, 0, tensor.bytes, values.mutable_data_ptr());
  }

  void unpack_into(float* out) const {
    constexpr std::int64_t piece_bytes = 1 << 20;
    const kernels::BlockSize size = kernels::size_of(*traits().blocks);
    const std::int64_t blocks = tensor.bytes / size.bytes;
    const std::int64_t at_once = piece_bytes / size.bytes;
    std::vector<char> piece(static_cast<std::size_t>(std::min(blocks, at_once) * size.bytes));
    for (std::int64_t block = 0; block < blocks; block += at_once) {
      const std::int64_t count = std::min(at_once, blocks - block);
      file.read_bytes(tensor, block * size.bytes, count * size.bytes, piece.data());
      kernels::unpack_blocks(*traits().blocks, piece.data(), count, out + block * size.elements);
    }
  }

  void copy_to(const at::Tensor& target) const {
    const bool fits = target.is_cpu() && target.is_contiguous() &&
                      target.scalar_type() == traits().dtype && target.sizes() == tensor.shape;
    if (fits) {
      read_into(target);
      // The version informs low-precision copies and autograd of writes by raw pointers.
      target.unsafeGetTensorImpl()->bump_version();
      return;
    }
    const at::Tensor values = at::empty(tensor.shape, at::TensorOptions().dtype(traits().dtype));
    read_into(values);
    target.copy_(values);
  }
};

}  // namespace

GgufFile::GgufFile(const std::filesystem::path& path)
    : file_(std::make_shared<const InputFile>(path, "GGUF")),
      header_(std::make_shared<const GgufHeader>(read_gguf_header(*file_))) {}

const GgufTensor* GgufFile::find(std::string_view name) const {
  const auto found = std::find_if(tensors().begin(), tensors().end(),
                                  [&](const GgufTensor& tensor) { return tensor.name == name; });
  return found == tensors().end() ? nullptr : &*found;
}

Error GgufFile::wrong_key(std::string_view key, std::string_view expected,
                          std::string_view received) const {
  return usage_error("read " + name() + ", key \"" + std::string(key) + '"', expected, received,
                     key.starts_with("tokenizer.")
                         ? "data.tokenizer, the tokenizer.json that the model came with"
                         : "a model of GPT-2, Llama, Mistral, Qwen 2 or 3, or Gemma 2 or 3 (text)");
}

const GgufValue& GgufFile::value(std::string_view key, std::string_view expected) const {
  const auto found = header_->keys.find(key);
  if (found == header_->keys.end()) throw wrong_key(key, expected, "no such key");
  return found->second;
}

template <class T>
const T& GgufFile::value_of(std::string_view key, std::string_view expected) const {
  if (const T* held = std::get_if<T>(&value(key, expected))) return *held;
  throw wrong_key(key, expected, "another type");
}

std::int64_t GgufFile::whole(std::string_view key) const {
  return value_of<std::int64_t>(key, "a whole number");
}

double GgufFile::number(std::string_view key) const {
  if (const auto* whole = std::get_if<std::int64_t>(&value(key, "a number")))
    return static_cast<double>(*whole);
  const double stated = value_of<double>(key, "a number");
  if (!std::isfinite(stated)) throw wrong_key(key, "a finite number", std::to_string(stated));
  return stated;
}

bool GgufFile::flag(std::string_view key) const { return value_of<bool>(key, "true or false"); }

const std::string& GgufFile::text(std::string_view key) const {
  return value_of<std::string>(key, "a text");
}

const std::vector<std::int64_t>& GgufFile::wholes(std::string_view key) const {
  return value_of<std::vector<std::int64_t>>(key, "an array of whole numbers");
}

const std::vector<double>& GgufFile::numbers(std::string_view key) const {
  return value_of<std::vector<double>>(key, "an array of numbers");
}

const std::vector<std::string>& GgufFile::texts(std::string_view key) const {
  return value_of<std::vector<std::string>>(key, "an array of texts");
}

std::int64_t GgufFile::whole_or(std::string_view key, std::int64_t absent) const {
  return has(key) ? whole(key) : absent;
}

double GgufFile::number_or(std::string_view key, double absent) const {
  return has(key) ? number(key) : absent;
}

bool GgufFile::flag_or(std::string_view key, bool absent) const {
  return has(key) ? flag(key) : absent;
}

void GgufFile::read_bytes(const GgufTensor& tensor, std::int64_t begin, std::int64_t count,
                          void* out) const {
  file_->read_at(tensor.offset + begin, out, count);
}

StoredTensor GgufFile::stored(const GgufTensor& tensor) const {
  return {
      tensor.name, traits_of(tensor.type).dtype, tensor.shape,
      [values = StoredValues{*this, tensor}](const at::Tensor& target) { values.copy_to(target); }};
}

StoredTensor GgufFile::stored_blocks(const GgufTensor& tensor) const {
  const kernels::MatrixSize size{tensor.shape.at(0), tensor.shape.at(1)};
  return {tensor.name, at::kByte,
          kernels::sizes_in_blocks(traits_of(tensor.type).blocks.value(), size),
          [file = *this, tensor](const at::Tensor& target) {
            at::Tensor bytes = at::empty({tensor.bytes}, at::TensorOptions().dtype(at::kByte));
            file.read_bytes(tensor, 0, tensor.bytes, bytes.mutable_data_ptr());
            target.copy_(bytes.view(target.sizes()));
          }};
}

}  // namespace accrue::models
