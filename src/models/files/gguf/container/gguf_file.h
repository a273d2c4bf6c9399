#pragma once

#include <filesystem>
#include <memory>

#include "accrue/core/stored_tensor.h"
#include "models/files/gguf/container/gguf_header.h"

namespace accrue::models {

/// A GGUF file whose tensors are not read yet. Copies share the open file.
class GgufFile {
 public:
  /// Throws a usage Error as read_gguf_header() does, and if there is no readable file.
  explicit GgufFile(const std::filesystem::path& path);

  const std::string& name() const { return file_->name(); }
  const std::vector<GgufTensor>& tensors() const { return header_->tensors; }
  /// Null if there is no tensor of that name.
  const GgufTensor* find(std::string_view name) const;

  bool has(std::string_view key) const { return header_->keys.contains(key); }
  /// Values of keys. Each throws a usage Error naming the file and the key if there is no such key,
  /// or it is of another type or a number that is not finite.
  std::int64_t whole(std::string_view key) const;
  double number(std::string_view key) const;
  bool flag(std::string_view key) const;
  const std::string& text(std::string_view key) const;
  const std::vector<std::int64_t>& wholes(std::string_view key) const;
  const std::vector<double>& numbers(std::string_view key) const;
  const std::vector<std::string>& texts(std::string_view key) const;
  /// The same, and `absent` if there is no such key.
  std::int64_t whole_or(std::string_view key, std::int64_t absent) const;
  double number_or(std::string_view key, double absent) const;
  bool flag_or(std::string_view key, bool absent) const;

  /// Reads `count` stored bytes of a tensor of this file, from its byte `begin` on.
  void read_bytes(const GgufTensor& tensor, std::int64_t begin, std::int64_t count,
                  void* out) const;
  /// The tensor's values, in the dtype that holds them, which is fp32 for blocks. They are read
  /// directly into a contiguous target of that dtype on the CPU, else through one temporary.
  StoredTensor stored(const GgufTensor& tensor) const;
  /// The bytes of a matrix whose type has blocks, in the form of kernels/blocks/block_matrix.h.
  StoredTensor stored_blocks(const GgufTensor& tensor) const;

  /// The usage Error if the value of `key` should be something else.
  Error wrong_key(std::string_view key, std::string_view expected, std::string_view received) const;

 private:
  const GgufValue& value(std::string_view key, std::string_view expected) const;
  template <class T>
  const T& value_of(std::string_view key, std::string_view expected) const;

  std::shared_ptr<const InputFile> file_;
  std::shared_ptr<const GgufHeader> header_;
};

}  // namespace accrue::models
