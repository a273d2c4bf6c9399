#include "models/files/gguf/container/gguf_writer.h"

#include <ATen/ATen.h>

#include "core/atomic_file.h"

namespace accrue::models {
namespace {

template <class T>
void append_number(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_text(std::string& bytes, std::string_view text) {
  append_number(bytes, std::uint64_t{text.size()});
  bytes.append(text);
}

std::int64_t aligned(std::int64_t offset) {
  return (offset + gguf_usual_alignment - 1) / gguf_usual_alignment * gguf_usual_alignment;
}

std::string padding(std::int64_t offset) {
  return std::string(static_cast<std::size_t>(aligned(offset) - offset), '\0');
}

std::int64_t bytes_of(const GgufOutput& tensor) {
  const GgufTypeTraits& traits = traits_of(tensor.type);
  return c10::multiply_integers(tensor.shape) / traits.elements * traits.bytes;
}

void check_rows(const std::string& operation, const GgufOutput& tensor) {
  const GgufTypeTraits& traits = traits_of(tensor.type);
  const std::int64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
  if (row % traits.elements != 0)
    throw usage_error(operation + ", tensor \"" + tensor.name + '"',
                      "rows of a multiple of " + std::to_string(traits.elements) + " for " +
                          std::string(traits.name),
                      "rows of " + std::to_string(row), "F16, which has no blocks");
}

std::string header_of(const GgufKeyWriter& keys, const std::vector<GgufOutput>& tensors) {
  std::string header(gguf_magic);
  append_number(header, gguf_version);
  append_number(header, std::uint64_t{tensors.size()});
  append_number(header, keys.count());
  header += keys.bytes();
  std::int64_t offset = 0;
  for (const GgufOutput& tensor : tensors) {
    append_text(header, tensor.name);
    append_number(header, static_cast<std::uint32_t>(tensor.shape.size()));
    for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size)
      append_number(header, static_cast<std::uint64_t>(*size));
    append_number(header, tensor.type);
    append_number(header, static_cast<std::uint64_t>(offset));
    offset = aligned(offset + bytes_of(tensor));
  }
  return header + padding(std::ssize(header));
}

std::string q8_0_of(const at::Tensor& values) {
  constexpr kernels::BlockSize size = kernels::size_of(kernels::BlockFormat::q8_0);
  const std::int64_t blocks = values.numel() / size.elements;
  std::string bytes(static_cast<std::size_t>(blocks * size.bytes), '\0');
  kernels::pack_q8_0(values.const_data_ptr<float>(), blocks, bytes.data());
  return bytes;
}

/// The largest magnitude that a type can hold.
double largest_of(GgufType type) {
  constexpr double largest_fp16 = 65504;
  if (type == GgufType::f16) return largest_fp16;
  if (type == GgufType::q8_0) return 127 * largest_fp16;
  return std::numeric_limits<float>::max();
}

void check_values(const std::string& operation, const GgufOutput& tensor,
                  const at::Tensor& values) {
  if (values.numel() == 0) return;
  const double largest = values.abs().max().item<double>();  // NaN if one value is
  if (largest <= largest_of(tensor.type)) return;
  throw usage_error(operation + ", tensor \"" + tensor.name + '"',
                    "magnitudes of at most " + c10::str(largest_of(tensor.type)) + " for " +
                        std::string(traits_of(tensor.type).name),
                    c10::str(largest), "bf16 or f32 where they are finite");
}

void write_values(AtomicFile& file, const std::string& operation, const GgufOutput& tensor) {
  const at::Tensor values = tensor.values().to(at::kFloat).contiguous();
  check_values(operation, tensor, values);
  if (traits_of(tensor.type).blocks) {
    file.write(q8_0_of(values));
  } else {
    const at::Tensor stored = values.to(traits_of(tensor.type).dtype);
    file.write({static_cast<const char*>(stored.const_data_ptr()), stored.nbytes()});
  }
  file.write(padding(bytes_of(tensor)));
}

}  // namespace

void GgufKeyWriter::begin(std::string_view key, GgufValueType type) {
  ++count_;
  append_text(bytes_, key);
  append_number(bytes_, type);
}

void GgufKeyWriter::begin_array(std::string_view key, GgufValueType type, std::size_t count) {
  begin(key, GgufValueType::array);
  append_number(bytes_, type);
  append_number(bytes_, std::uint64_t{count});
}

void GgufKeyWriter::add(std::string_view key, std::uint32_t value) {
  begin(key, GgufValueType::uint32);
  append_number(bytes_, value);
}

void GgufKeyWriter::add(std::string_view key, float value) {
  begin(key, GgufValueType::float32);
  append_number(bytes_, value);
}

void GgufKeyWriter::add(std::string_view key, bool value) {
  begin(key, GgufValueType::boolean);
  append_number(bytes_, static_cast<std::uint8_t>(value));
}

void GgufKeyWriter::add(std::string_view key, const std::string& value) {
  begin(key, GgufValueType::text);
  append_text(bytes_, value);
}

void GgufKeyWriter::add(std::string_view key, const std::vector<std::string>& values) {
  begin_array(key, GgufValueType::text, values.size());
  for (const std::string& value : values) append_text(bytes_, value);
}

void GgufKeyWriter::add(std::string_view key, const std::vector<std::int32_t>& values) {
  begin_array(key, GgufValueType::int32, values.size());
  for (const std::int32_t value : values) append_number(bytes_, value);
}

void GgufKeyWriter::add(std::string_view key, const std::vector<float>& values) {
  begin_array(key, GgufValueType::float32, values.size());
  for (const float value : values) append_number(bytes_, value);
}

void write_gguf(const std::filesystem::path& path, const GgufKeyWriter& keys,
                const std::vector<GgufOutput>& tensors) {
  const std::string operation = "write " + path.string();
  for (const GgufOutput& tensor : tensors) check_rows(operation, tensor);
  AtomicFile file(path);
  file.write(header_of(keys, tensors));
  for (const GgufOutput& tensor : tensors) write_values(file, operation, tensor);
  file.commit();
}

}  // namespace accrue::models
