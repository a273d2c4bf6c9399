#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "accrue/core/stored_tensor.h"

namespace accrue::models {

/// The safetensors format: 8 bytes little-endian header length, a JSON header, the tensors' bytes.
struct TensorFile {
  NamedParameters tensors;                      ///< in the file's order, on CPU
  std::map<std::string, std::string> metadata;  ///< "__metadata__"
};

/// An open safetensors file whose tensors are not read yet; they keep the file open.
struct StoredTensorFile {
  StoredTensors tensors;                        ///< in the file's order
  std::map<std::string, std::string> metadata;  ///< "__metadata__"
};

/// Checks a file: lengths, dtypes, shapes and offsets must agree, without gaps, overlaps or bytes
/// after the last tensor. Throws a usage Error that names the file, the tensor and the fault. A
/// tensor is read when it is copied: directly into a contiguous target of its dtype on the CPU,
/// otherwise through one temporary.
StoredTensorFile open_safetensors(const std::filesystem::path& path);

/// Combines the tensors of several such files. `index` is Hugging Face's
/// model.safetensors.index.json, whose "weight_map" gives the file of each tensor, in the same
/// folder. Each file is checked like open_safetensors() does, and used as a whole, including
/// tensors that the index does not name, or assigns to another file. Throws a usage Error that
/// names the file and the tensor if the index does not have that form, names a file that is missing
/// or outside its folder, or a tensor that no file has, or if two files have the same tensor with
/// different values.
StoredTensors open_sharded_safetensors(const std::filesystem::path& index);

/// Checks a file like open_safetensors(), and reads it completely.
TensorFile read_safetensors(const std::filesystem::path& path);

/// The checksums (core/checksum.h) of the parts of a file.
struct TensorChecksums {
  std::string header;                          ///< of the header's length and JSON
  std::map<std::string, std::string> tensors;  ///< of each tensor, by name
  bool operator==(const TensorChecksums&) const = default;
};

/// Reads a whole file once, in pieces of a quarter MiB. Throws the errors of open_safetensors().
TensorChecksums safetensors_checksums(const std::filesystem::path& path);

/// Writes atomically. Tensors are made contiguous and copied to the CPU one at a time. Dtypes: F32,
/// F64, F16, BF16, C64, I64, I32, I16, I8, U8 and BOOL. Returns the checksums of the file. Throws a
/// runtime Error naming the path if the disk is full or not writable.
TensorChecksums write_safetensors(const std::filesystem::path& path, const NamedParameters& tensors,
                                  const std::map<std::string, std::string>& metadata = {});
/// Writes tensors that are not in memory: each is read once, just before it is written.
TensorChecksums write_stored_safetensors(const std::filesystem::path& path,
                                         const StoredTensors& tensors,
                                         const std::map<std::string, std::string>& metadata = {});

}  // namespace accrue::models
