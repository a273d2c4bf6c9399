#include <algorithm>
#include <fstream>
#include <sstream>
#include <utility>

#include "core/open_file.h"
#include "data/files/fingerprint.h"
#include "data/images/sets/cifar_version.h"
#include "data/images/sets/image_store.h"
#include "data/source_errors.h"

namespace accrue::data {
namespace {

constexpr ImageShape cifar_shape{.channels = 3, .height = 32, .width = 32};

/// The file's lines that are not empty, read up to the number of bytes that class names take; none
/// if there is no such file.
std::vector<std::string> lines_of(const std::filesystem::path& path) {
  constexpr std::size_t most_bytes = 1 << 16;
  std::ifstream file = stream_to_read(path);
  std::string text(most_bytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

class Cifar final : public ImageStore {
 public:
  Cifar(std::unique_ptr<const FilePool> files, const ImageOptions& options, const std::string& what)
      : files_(std::move(files)), version_(version_of(0, what)) {
    std::int64_t total = 0;
    for (std::size_t file = 0; file < files_->count(); ++file) {
      if (file > 0) require_version(file, what);
      ends_.push_back(total += files_->bytes(file) / version_.record_bytes());
      take_labels(file, what);
    }
    if (!options.classes.empty() && std::ssize(options.classes) != version_.classes) {
      throw usage_error(what,
                        "images of the " + std::to_string(options.classes.size()) +
                            " classes of the training data",
                        files_->path(0).string() + ": " + version_.name,
                        "files of the same data set");
    }
    classes_ = options.classes.empty() ? found_classes() : options.classes;
    fingerprint_.emplace(std::string("images, ") + version_.name, *files_);
  }

  std::int64_t size() const override { return ends_.back(); }
  ShapeCounts shapes() const override { return {{cifar_shape, size()}}; }
  std::string fingerprint() const override { return fingerprint_->text(); }
  std::vector<DataFile> files() const override { return fingerprint_->files(); }
  std::vector<std::string> classes() const override { return classes_; }
  std::optional<std::int64_t> label(std::int64_t index) const override {
    return labels_[static_cast<std::size_t>(index)];
  }

  ImageRead read(std::int64_t index, DecodedImage& image) const override {
    const Record record = record_of(index);
    image.shape = cifar_shape;
    image.in_planes = true;
    image.bytes.resize(static_cast<std::size_t>(cifar_pixel_bytes));
    files_->read(record.file, record.begin + version_.label_bytes,
                 std::as_writable_bytes(std::span(image.bytes)));
    return {.label = label(index), .failure = {}};
  }

 private:
  using Labels = std::vector<std::uint8_t>;

  /// The place of an image, with its labels.
  struct Record {
    std::size_t file;
    std::int64_t begin;
  };

  Record record_of(std::int64_t index) const {
    const auto file =
        static_cast<std::size_t>(std::ranges::upper_bound(ends_, index) - ends_.begin());
    const std::int64_t record = index - (file == 0 ? 0 : ends_[file - 1]);
    return {file, record * version_.record_bytes()};
  }

  /// Of the file's records, if they have that version.
  Labels labels_of(std::size_t file, const CifarVersion& version) const {
    Labels labels(static_cast<std::size_t>(files_->bytes(file) / version.record_bytes()));
    std::int64_t place = version.label_bytes - 1;
    for (std::uint8_t& label : labels) {
      files_->read(file, place, std::as_writable_bytes(std::span(&label, 1)));
      place += version.record_bytes();
    }
    return labels;
  }

  /// The version whose records fill the file; if both do, the one whose labels are in range.
  CifarVersion version_of(std::size_t file, const std::string& what) const {
    const std::int64_t bytes = files_->bytes(file);
    const bool is_10 = bytes % cifar10.record_bytes() == 0;
    const bool is_100 = bytes % cifar100.record_bytes() == 0;
    if (bytes == 0 || (!is_10 && !is_100)) {
      throw usage_error(what,
                        "CIFAR's binary version (records of 3073 bytes, or of 3074: CIFAR-100)",
                        files_->path(file).string() + ": " + std::to_string(bytes) + " bytes",
                        "getting the file again: it is truncated or no CIFAR file");
    }
    if (is_10 && is_100)
      return bad_record(labels_of(file, cifar10), cifar10) < 0 ? cifar10 : cifar100;
    return is_10 ? cifar10 : cifar100;
  }

  void require_version(std::size_t file, const std::string& what) const {
    const CifarVersion version = version_of(file, what);
    if (version == version_) return;
    throw usage_error(what, "files of one data set",
                      files_->path(0).string() + " (" + version_.name + ") beside " +
                          files_->path(file).string() + " (" + version.name + ")",
                      "globs that match only one of them");
  }

  /// The first record whose label is out of range, or -1.
  static std::int64_t bad_record(const Labels& labels, const CifarVersion& version) {
    const auto bad =
        std::ranges::find_if(labels, [&](std::uint8_t label) { return label >= version.classes; });
    return bad == labels.end() ? -1 : bad - labels.begin();
  }

  void take_labels(std::size_t file, const std::string& what) {
    const Labels labels = labels_of(file, version_);
    const std::int64_t record = bad_record(labels, version_);
    if (record >= 0)
      throw usage_error(
          what, std::string(version_.name) + "'s labels below " + std::to_string(version_.classes),
          files_->path(file).string() + ": another in record " + std::to_string(record),
          "getting the file again: it is corrupt or no CIFAR file");
    labels_.insert(labels_.end(), labels.begin(), labels.end());
  }

  /// The names in the file that comes with the data set, or else the classes' numbers.
  std::vector<std::string> found_classes() const {
    std::vector<std::string> names = lines_of(files_->path(0).parent_path() / version_.names_file);
    if (std::ssize(names) == version_.classes) return names;
    names.clear();
    for (std::int64_t i = 0; i < version_.classes; ++i) names.push_back(std::to_string(i));
    return names;
  }

  std::unique_ptr<const FilePool> files_;
  CifarVersion version_;
  std::vector<std::int64_t> ends_;  ///< number of images up to and including file i
  Labels labels_;
  std::vector<std::string> classes_;
  std::optional<Fingerprint> fingerprint_;
};

}  // namespace

std::unique_ptr<ImageStore> open_cifar(std::vector<std::filesystem::path> paths,
                                       const ImageOptions& options, const std::string& what) {
  auto files = std::make_unique<const FilePool>(std::move(paths), what);
  return std::make_unique<Cifar>(std::move(files), options, what);
}

}  // namespace accrue::data
