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

/// A safetensors file whose tensors are not read yet; they keep the file open.
struct StoredTensorFile {
  StoredTensors tensors;                        ///< in the file's order
  std::map<std::string, std::string> metadata;  ///< "__metadata__"
};

/// Checks a file: lengths, dtypes, shapes and offsets must agree, without gaps, overlaps
/// or bytes behind the last tensor. Throws a usage Error that names the file, the tensor and what
/// is wrong. A tensor is read when it is copied: straight into a contiguous target of its dtype on
/// the CPU, else through one temporary.
StoredTensorFile open_safetensors(const std::filesystem::path& path);

/// The tensors of several such files as one: `index` is Hugging Face's
/// model.safetensors.index.json, whose "weight_map" names for each tensor the file beside it that
/// it is in. Each file is checked as open_safetensors() does, and read as a whole: also tensors
/// that the index does not name, or says are in another file. Throws a usage Error that names the
/// file and the tensor if the index is not of that form, names a file that is not there or is
/// not in its folder, or a tensor that no file has, and if two files have a tensor with other
/// values.
StoredTensors open_sharded_safetensors(const std::filesystem::path& index);

/// Checks as open_safetensors() does, and reads everything.
TensorFile read_safetensors(const std::filesystem::path& path);

/// The checksums (core/checksum.h) of the parts of a file.
struct TensorChecksums {
  std::string header;                          ///< of the header's length and JSON
  std::map<std::string, std::string> tensors;  ///< of each tensor, by name
  bool operator==(const TensorChecksums&) const = default;
};

/// Reads all of a file once, by pieces of a quarter MiB. Throws as open_safetensors() does.
TensorChecksums safetensors_checksums(const std::filesystem::path& path);

/// Writes atomically. Tensors are made contiguous and brought to CPU one at a time. Dtypes are F32,
/// F64, F16, BF16, C64, I64, I32, I16, I8, U8 and BOOL. Returns the checksums of what was written.
/// Throws a runtime Error naming the path if the disk is full or not writable.
TensorChecksums write_safetensors(const std::filesystem::path& path, const NamedParameters& tensors,
                                  const std::map<std::string, std::string>& metadata = {});
/// Writes tensors that are not in memory: each is read once, when its turn comes.
TensorChecksums write_stored_safetensors(const std::filesystem::path& path,
                                         const StoredTensors& tensors,
                                         const std::map<std::string, std::string>& metadata = {});

}  // namespace accrue::models
