#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "accrue/data/source.h"
#include "data/files/file_pool.h"
#include "data/files/glob.h"
#include "data/images/decode/image_decode.h"
#include "data/images/sets/image_shape_rule.h"

namespace accrue::data {

/// The result of a request for an image.
struct ImageRead {
  /// Its class, 0 if it has a mask; none if there are no pixels.
  std::optional<std::int64_t> label;
  std::string failure;  ///< why it does not decode
};

/// Images and their classes, however they are stored. Safe from several threads.
class ImageStore {
 public:
  virtual ~ImageStore() = default;
  virtual std::int64_t size() const = 0;
  /// Source::decoding(); images that are as large as their file need no memory that counts.
  virtual Decoding decoding() const { return {}; }
  /// Counts the images that are not excluded, by the shapes in their headers.
  virtual ShapeCounts shapes() const = 0;
  virtual std::vector<std::string> classes() const = 0;
  /// Source::class_of().
  virtual std::optional<std::int64_t> label(std::int64_t /*index*/) const { return std::nullopt; }
  /// Remarks on the images and their classes for the user, a sentence each.
  virtual std::vector<std::string> remarks() const { return {}; }
  /// Reads image `index` as it is stored into `image`, whose memory is reused.
  virtual ImageRead read(std::int64_t index, DecodedImage& image) const = 0;
  /// Whether each pixel has a class, which read_mask() reads.
  virtual bool has_masks() const { return false; }
  /// Reads the classes of the pixels of image `index` into `mask`, as one channel. Returns why that
  /// does not decode, or an empty string. Throws a usage Error if one is beyond classes().
  virtual std::string read_mask(std::int64_t /*index*/, DecodedImage& /*mask*/) const { return ""; }
  /// Source::check_contents().
  virtual void check_contents() const {}
  /// Names the file of image `index`.
  virtual std::string name(std::int64_t index) const { return "image " + std::to_string(index); }
  virtual std::string fingerprint() const = 0;
  virtual std::vector<DataFile> files() const = 0;
};

struct ImageOptions {
  std::vector<std::string> globs;            ///< that matched the files
  std::vector<std::string> classes;          ///< known ones; empty: as in the files
  std::int64_t class_bound = 0;              ///< labels must be below; 0: not checked
  std::set<std::filesystem::path> excluded;  ///< paths that must not be used
  std::vector<std::string> masks = {};       ///< SourceOptions::masks
  /// SourceOptions::other_images, without those that must not be used.
  std::vector<std::filesystem::path> other_images = {};
  ImageShape shape = {};  ///< SourceOptions::image
  Augment augment = {};   ///< of draws; `seed` is its key
  std::uint64_t seed = 0;
};

/// Each opener throws a usage Error of the operation `what` that names the file, as documented in
/// SourceOptions and open_source.
///
/// Opens encoded images whose class is the name of a folder (ClassFolders). Their shapes are read
/// now, their pixels on request.
std::unique_ptr<ImageStore> open_image_folders(const FoundFiles& found, const ImageOptions& options,
                                               const std::string& what);
/// Opens encoded images that have masks (SourceOptions::masks), in the order of `paths`.
std::unique_ptr<ImageStore> open_masked_images(std::vector<std::filesystem::path> paths,
                                               const ImageOptions& options,
                                               const std::string& what);
/// Opens CIFAR's binary version: records of a label (CIFAR-100: a coarse and a fine one) and 3
/// planes of 32 x 32 bytes (Krizhevsky: "Learning multiple layers of features from tiny images",
/// 2009).
std::unique_ptr<ImageStore> open_cifar(std::vector<std::filesystem::path> paths,
                                       const ImageOptions& options, const std::string& what);
/// Opens MNIST's idx files of images (LeCun, Cortes, Burges); the file of their labels is searched
/// next to each.
std::unique_ptr<ImageStore> open_idx(std::vector<std::filesystem::path> paths,
                                     const ImageOptions& options, const std::string& what);

/// "3 x 32 x 32": channels, height and width, for people.
std::string text_of(const ImageShape& shape);

}  // namespace accrue::data
