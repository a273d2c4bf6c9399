#include <algorithm>
#include <set>
#include <utility>

#include "data/files/fingerprint.h"
#include "data/files/glob.h"
#include "data/files/suffix.h"
#include "data/images/image_file.h"
#include "data/images/image_store.h"
#include "data/source_errors.h"

namespace accrue::data {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(const fs::path& file) {
  std::error_code ignored;
  return (file.has_parent_path() ? file : fs::absolute(file, ignored)).parent_path();
}

/// The folder's own name, also where the path to it ends in "..".
std::string class_of(const fs::path& file) {
  const fs::path folder = folder_of(file);
  std::error_code ignored;
  if (folder.filename() != "..") return folder.filename().string();
  return fs::weakly_canonical(folder, ignored).filename().string();
}

bool holds_image(const fs::path& folder) {
  std::error_code failure;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::follow_directory_symlink,
                                         failure);
  for (; !failure && entry != fs::recursive_directory_iterator(); entry.increment(failure))
    if (has_image_suffix(entry->path())) return true;
  return bool(failure);  // what cannot be read is not judged
}

/// A folder beside the classes' that holds no image would be a class without samples.
void require_no_empty_class(const std::vector<fs::path>& paths, const std::string& what) {
  std::error_code failure;
  std::set<fs::path> folders, parents;
  for (const fs::path& path : paths) folders.insert(fs::absolute(folder_of(path), failure));
  for (const fs::path& folder : folders) parents.insert(folder.parent_path());
  for (const fs::path& parent : parents) {
    fs::directory_iterator entry(parent, failure);
    for (; !failure && entry != fs::directory_iterator(); entry.increment(failure)) {
      std::error_code ignored;
      if (entry->path().filename().string().starts_with('.') || !entry->is_directory(ignored) ||
          folders.contains(entry->path()) || holds_image(entry->path()))
        continue;
      throw usage_error(what, "an image in every class folder", "none in " + entry->path().string(),
                        "removing it, or adding its images");
    }
  }
}

/// Class folders' images spread evenly: any range of samples has about the whole's proportions,
/// so that a held-out part at the end has too.
class Spread {
 public:
  explicit Spread(std::size_t classes) : counts_(classes) {}

  void add(std::size_t file, std::size_t of_class) {
    places_.push_back({file, of_class, counts_[of_class]++});
  }
  std::int64_t count(std::size_t of_class) const { return counts_[of_class]; }

  struct Place {
    std::size_t file, of_class;
    std::int64_t rank;  ///< number among the images of its class
  };
  /// Image k of a class of n goes to (k + 1/2) / n of the way; ties go by class.
  std::vector<Place> sorted() && {
    std::sort(places_.begin(), places_.end(), [this](const Place& a, const Place& b) {
      const std::int64_t left = (2 * a.rank + 1) * counts_[b.of_class];
      const std::int64_t right = (2 * b.rank + 1) * counts_[a.of_class];
      return left != right ? left < right : a.of_class < b.of_class;
    });
    return std::move(places_);
  }

 private:
  std::vector<std::int64_t> counts_;
  std::vector<Place> places_;
};

class ImageFolders final : public ImageStore {
 public:
  ImageFolders(std::unique_ptr<const FilePool> files, const ImageOptions& options,
               const std::string& what)
      : files_(std::move(files)) {
    for (std::size_t file = 0; file < files_->count(); ++file)
      excluded_.push_back(options.excluded.contains(files_->path(file)));
    classes_ = options.classes.empty() ? found_classes(what) : options.classes;
    take_headers(what);
    Spread spread(classes_.size());
    for (std::size_t file = 0; file < files_->count(); ++file)
      if (!excluded_[file] || has_known_class(file)) spread.add(file, class_number(file, what));
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < classes_.size(); ++i)
      parts.push_back(classes_[i] + ":" + std::to_string(spread.count(i)));
    for (const Spread::Place& place : std::move(spread).sorted())
      samples_.push_back(
          {static_cast<std::uint32_t>(place.file), static_cast<std::uint32_t>(place.of_class)});
    fingerprint_.emplace("images, folders", *files_, std::move(parts));
  }

  std::int64_t size() const override { return std::ssize(samples_); }
  ShapeCounts shapes() const override { return shapes_; }
  Decoding decoding() const override { return decoding_; }
  std::vector<std::string> classes() const override { return classes_; }
  std::string fingerprint() const override { return fingerprint_->text(); }
  std::vector<DataFile> files() const override { return fingerprint_->files(); }

  ImageRead read(std::int64_t index, DecodedImage& image) const override {
    const Sample& sample = samples_[static_cast<std::size_t>(index)];
    if (excluded_[sample.file]) return {};
    std::string failure = decode_image_file(*files_, sample.file, image);
    if (!failure.empty()) return {.label = {}, .failure = std::move(failure)};
    return {.label = sample.of_class, .failure = {}};
  }

  std::string name(std::int64_t index) const override {
    return files_->path(samples_[static_cast<std::size_t>(index)].file).string();
  }

 private:
  struct Sample {
    std::uint32_t file = 0;
    std::uint32_t of_class = 0;
  };

  std::vector<std::string> found_classes(const std::string& what) const {
    std::set<std::string> names;
    for (std::size_t file = 0; file < files_->count(); ++file)
      names.insert(class_of(files_->path(file)));
    if (names.size() >= 2) return {names.begin(), names.end()};
    throw usage_error(what, "images in at least two folders, one for each class",
                      "all in " + folder_of(files_->path(0)).string(),
                      "a glob like \"train/*/*.png\"");
  }

  bool has_known_class(std::size_t file) const {
    return std::ranges::find(classes_, class_of(files_->path(file))) != classes_.end();
  }

  std::size_t class_number(std::size_t file, const std::string& what) const {
    const std::string name = class_of(files_->path(file));
    const auto found = std::find(classes_.begin(), classes_.end(), name);
    if (found != classes_.end()) return static_cast<std::size_t>(found - classes_.begin());
    throw usage_error(what, "images of the classes of the training data",
                      files_->path(file).string() + ": class '" + name + "'",
                      "training images of that class, or a glob that leaves it out");
  }

  void take_headers(const std::string& what) {
    for (std::size_t file = 0; file < files_->count(); ++file) {
      if (excluded_[file]) continue;
      const ImageHeader header = require_image_header(*files_, file, what);
      ++shapes_[header.shape];
      decoding_ = larger(decoding_, decoding_of(*files_, file, header));
    }
  }

  std::unique_ptr<const FilePool> files_;
  std::vector<bool> excluded_;  ///< by file
  ShapeCounts shapes_;
  Decoding decoding_;
  std::vector<std::string> classes_;
  std::vector<Sample> samples_;
  std::optional<Fingerprint> fingerprint_;
};

}  // namespace

std::unique_ptr<ImageStore> open_image_folders(std::vector<fs::path> paths,
                                               const ImageOptions& options,
                                               const std::string& what) {
  require_no_empty_class(paths, what);
  auto files = std::make_unique<const FilePool>(std::move(paths), what);
  return std::make_unique<ImageFolders>(std::move(files), options, what);
}

}  // namespace accrue::data
