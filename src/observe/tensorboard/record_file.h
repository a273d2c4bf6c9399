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

  /// Creates the file, which must not be there yet. This and append() return what went wrong, for
  /// people; empty: nothing.
  std::string create(const std::filesystem::path& file);
  /// Appends a record with one write: whole, or not at all. It is not flushed to the disk. What can
  /// no longer be opened by its name counts as wrong, too.
  std::string append(std::string_view data);

 private:
  int descriptor_ = -1;
};

}  // namespace accrue::observe
