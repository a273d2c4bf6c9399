#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace accrue::observe {

/// A TFRecord: the length of `data`, its checksum, `data` and its checksum.
/// https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details
std::string framed(std::string_view data);

/// A file of TFRecords that grows by whole records.
class RecordFile {
 public:
  RecordFile() = default;  ///< not open
  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  /// Creates the file, which must not exist yet. This and append() return what went wrong, for
  /// people; empty if nothing did.
  std::string create(const std::filesystem::path& file);
  /// Appends a record with one write: whole, or not at all. It is not flushed to the disk. It also
  /// fails if the file can no longer be opened by its name.
  std::string append(std::string_view data);

 private:
  int descriptor_ = -1;
};

}  // namespace accrue::observe
