#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "models/files/gguf/container/gguf_format.h"

namespace at {
class Tensor;
}

namespace accrue::models {

/// The keys for a new GGUF file, in the order in which they are added. Each has to be added once.
class GgufKeyWriter {
 public:
  void add(std::string_view key, std::uint32_t value);
  void add(std::string_view key, float value);
  void add(std::string_view key, bool value);
  void add(std::string_view key, const std::string& value);
  void add(std::string_view key, const std::vector<std::string>& values);
  void add(std::string_view key, const std::vector<std::int32_t>& values);
  void add(std::string_view key, const std::vector<float>& values);

  std::uint64_t count() const { return count_; }
  const std::string& bytes() const { return bytes_; }

 private:
  void begin(std::string_view key, GgufValueType type);
  void begin_array(std::string_view key, GgufValueType type, std::size_t count);

  std::uint64_t count_ = 0;
  std::string bytes_;
};

/// A tensor to be written: its stored form, and how to get its values, fp32 on the CPU.
struct GgufOutput {
  std::string name;
  GgufType type = GgufType::f32;
  std::vector<std::int64_t> shape;
  std::function<at::Tensor()> values;
};

/// Writes a GGUF of version 3 atomically, tensors one at a time. Types are F32, F16, BF16 and Q8_0.
/// Throws a usage Error naming the tensor if a row is not a whole number of blocks of its type or a
/// value does not fit (too large, or not a number), a runtime Error if the disk is full or not
/// writable.
void write_gguf(const std::filesystem::path& path, const GgufKeyWriter& keys,
                const std::vector<GgufOutput>& tensors);

}  // namespace accrue::models
