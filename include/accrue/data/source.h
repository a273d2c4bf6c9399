#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "accrue/batch/micro_batch.h"
#include "accrue/data/augment.h"
#include "accrue/data/format.h"
#include "accrue/data/tokenizer.h"

namespace accrue::data {

/// The shape of one image, in pixels.
struct ImageShape {
  std::int64_t channels = 0;  ///< 1: grey, 3: red, green, blue
  std::int64_t height = 0;
  std::int64_t width = 0;
  auto operator<=>(const ImageShape&) const = default;
};

/// A file that a source reads, or all of its files in one folder if there are many.
struct DataFile {
  std::filesystem::path path;
  std::int64_t files = 1;
  std::int64_t bytes = 0;
  std::string fingerprint;  ///< of size and content, 16 digits; of a folder also of the names
  bool operator==(const DataFile&) const = default;
};

class Source;

/// One part of a mixture, drawn in proportion to its weight.
struct MixturePart {
  std::string name;  ///< for people: the pattern of its files
  std::shared_ptr<const Source> source;
  double weight = 1;  ///< > 0; only the ratio of weights counts
};

/// The memory that one thread uses to decode the largest sample, besides the micro-batch: the bytes
/// of its file and its pixels.
struct Decoding {
  std::int64_t bytes = 0;  ///< 0: nothing is decoded
  std::string name;        ///< of the sample's file, for people
};

/// Samples with random access. `fetch` is a pure function of the indices, so any micro-batch can be
/// made again. Thread-safe.
class Source {
 public:
  virtual ~Source() = default;
  virtual std::int64_t size() const = 0;  ///< number of samples
  /// Token ids are in [0, vocab); for images the number of classes; 0 if unknown.
  virtual std::int64_t vocab() const = 0;
  /// Whether some of the data is text, which this source tokenizes.
  virtual bool has_text() const { return false; }
  /// Whether the samples are conversations, to which a chat template is applied.
  virtual bool has_conversations() const { return false; }
  /// The tokenizer of the text; null: a token is a byte.
  virtual std::shared_ptr<const Tokenizer> tokenizer() const { return nullptr; }
  /// Input tokens of sample `index` in [0, size()); an image counts as one.
  virtual std::int64_t tokens(std::int64_t index) const = 0;
  /// Input tokens of every sample; nothing if samples may differ (windows then use `tokens`).
  virtual std::optional<std::int64_t> uniform_tokens() const = 0;
  /// Whether samples must be drawn in order (data.order = "sequential"), because any other order
  /// would read most of the data for each micro-batch (stream_source()).
  virtual bool reads_in_order() const { return false; }
  /// The shape of all images after scaling and cropping; nothing if there are no images.
  virtual std::optional<ImageShape> image_shape() const { return std::nullopt; }
  /// The most memory that fetch() uses for decoding at once. It comes from libtorch's CPU
  /// allocator, so a memory budget counts it.
  virtual Decoding decoding() const { return {}; }
  /// Whether each pixel of the images has a class (SourceOptions::masks).
  virtual bool has_masks() const { return false; }
  /// The parts of a mixture (mix()), in the order of its samples; empty if it is none.
  virtual std::vector<MixturePart> parts() const { return {}; }
  /// Names of an image set's classes, in the order of their numbers.
  virtual std::vector<std::string> classes() const { return {}; }
  /// The class of image `index` in [0, size()), if it is known without its pixels.
  virtual std::optional<std::int64_t> class_of(std::int64_t /*index*/) const {
    return std::nullopt;
  }
  /// Remarks for the user who starts a run, one sentence each: samples that were left out, the
  /// shape of images and its reason.
  virtual std::vector<std::string> remarks() const { return {}; }

  /// Returns samples `indices` (each in [0, size())) as one micro-batch. The caller sets the ids
  /// (fetch_as) and spans[i].sample_id; spans, if any, are in the order of `indices`. Padding is id
  /// 0 with target -100 and weight 0. An image that cannot be decoded, or that
  /// SourceOptions::exclude names, has no row. If `indices` contain such images, sample_ids are the
  /// positions in `indices` of the samples with a row, and `unreadable` lists those that cannot be
  /// decoded, also by position. Throws a usage Error naming file and position if a token is outside
  /// the vocabulary, and a runtime Error if a file was changed since it was opened, or can no
  /// longer be read.
  virtual batch::MicroBatch fetch(std::span<const std::int64_t> indices) const = 0;
  /// Like fetch(), with the random changes of training: if the source augments, sample `indices`[i]
  /// is changed by the draw with ordinal `draws`[i]. A pure function of both.
  virtual batch::MicroBatch fetch_drawn(std::span<const std::int64_t> indices,
                                        std::span<const std::int64_t> /*draws*/) const {
    return fetch(indices);
  }
  /// Reads all data once, on all threads, if that can find errors of fetch(): tokens outside the
  /// vocabulary. Only once per source. Throws the errors of fetch().
  virtual void check_contents() const {}
  /// Identifies the data; a resumption compares it. Covers the format and packing; of each file, in
  /// order, the name without its folder (data may move), the size, and a hash of its bytes: of all
  /// bytes up to 4 MiB, otherwise of the first and last MiB and 32 blocks of 64 KiB evenly spaced
  /// in between; and for images in folders also the classes.
  virtual std::string fingerprint() const = 0;
  /// The files of the fingerprint: each file, or each folder of files if there are more than 1000.
  /// Empty if the samples do not come from files.
  virtual std::vector<DataFile> files() const { return {}; }
};

/// Reports the progress of slow work: bytes done and in total; equal at the end.
using TellProgress = std::function<void(std::int64_t done, std::int64_t all)>;

struct SourceOptions {
  /// Shell patterns: *, ?, [..], and ** for any number of folders (each once, also links to
  /// folders; hidden names only if the pattern contains the dot). A file that matches several
  /// patterns is used once. A broken link is an error.
  std::vector<std::string> globs;
  /// Patterns like `globs` for files to exclude; they need not match any file. Excluded images in
  /// folders keep their index (fetch() gives them no row), so the indices of other samples do not
  /// change, and a run can continue without some images. Other excluded files are treated as
  /// missing.
  std::vector<std::string> exclude;
  /// Without a value, the suffix decides: .bin is tokens; .jsonl .jsonlines .json-lines .ndjson
  /// .ldjson (also followed by a number, as in .jsonl.1) are jsonl; .parquet is parquet; .png .jpg
  /// .jpeg are images, and so are formats that are refused by name (.bmp, .ppm, .gif, .tiff, .webp
  /// ...). For other suffixes the first line decides: a JSON object is jsonl, and other files are
  /// text, except files that are clearly not text (compressed, tables, arrays, JSON not in lines,
  /// binary files), which are refused by name.
  std::optional<Format> format = std::nullopt;
  /// Called if there is text or jsonl; empty, or a null result: bytes.
  std::function<std::shared_ptr<const Tokenizer>()> tokenizer = {};
  /// The folder in which tokenized files are cached; empty: no cache.
  std::filesystem::path cache = {};
  /// Called from time to time during tokenization and while JSON lines are read.
  TellProgress tell_progress = {};
  std::int64_t context = 256;  ///< T, not used for images
  std::int64_t vocab = 0;      ///< the model's; 0: unknown, ids are not checked
  bool packing = false;        ///< jsonl: several samples share a row of at most `context`
  bool pairs = false;          ///< jsonl: each line is a pair of sequences, one of them chosen
  /// jsonl: the fields of each line that become tensors by name, unchanged; empty: lines are read
  /// as described below.
  std::vector<std::string> columns = {};
  /// text, tokens, jsonl: inputs are all tokens of a sample, and each target that counts is the
  /// token itself, for losses that mask it (data::with_masks).
  bool whole = false;
  /// The classes of images, if known (those of the training data); files of another class are an
  /// error. Empty: determined by the files.
  std::vector<std::string> classes;
  /// Patterns like `globs` for the masks of images (PNG), one per image; empty: an image has one
  /// class.
  std::vector<std::string> masks = {};
  /// Patterns for images of another source whose masks are among these (the training data's, if
  /// this is held-out data): their masks are not matched with images here. Without the images that
  /// `exclude` names.
  std::vector<std::string> other_images = {};
  /// The target shape of images, if known (data.image, or the training data's). A 0 is determined
  /// by the files.
  ImageShape image = {};
  Augment augment = {};    ///< how fetch_drawn() changes images
  std::uint64_t seed = 0;  ///< of these changes
};

/// Opens all files that match, sorted by path (as bytes). docs/guide/data.md has examples.
///
/// text, tokens: the files are joined into one stream of tokens without separators. Sample i is
/// tokens [i*T, i*T + T] (T inputs, T targets shifted by one), also across files; a remainder that
/// does not fill a sample is left out. Text is one token per byte, or tokenized file by file (it
/// must then be UTF-8). A token file holds little-endian ids: uint16 without a header (nanoGPT), or
/// after llm.c's header of 256 int32 (magic, version, count): magic 20240520, version 1 for uint16;
/// magic 20240801, version 7 for uint32.
///
/// jsonl: one sample per line, an object with "text", or "prompt" and "completion" (loss on the
/// completion only), or "input_ids" and "labels" aligned as in Hugging Face (labels[i] is predicted
/// at position i-1, labels[0] never counts, -100 is ignored), or "instruction", "input" and
/// "output" (Alpaca: loss on the output), and optionally "weight": the weight of each term of the
/// sample's loss. With a tokenizer, the tokens of its template are added around each text, and its
/// end of text after it, which counts; prompt and completion are encoded separately. A sample of n
/// tokens has n-1 inputs, since the last token is only a target. Samples of fewer than two tokens
/// are left out (remarks() states how many). Next to "input_ids", a 0 in "completion_mask",
/// "assistant_masks" or "loss_mask" excludes a token from the loss; without "labels" the labels are
/// the ids. "position_ids" that start again, or "seq_lengths", make several samples of a line,
/// which do not attend to each other. A duplicate key is an error; unused keys are listed in
/// remarks().
///
/// jsonl as pairs: one sample per line, an object with "prompt", "chosen" and "rejected", and
/// optionally "weight": two sequences, with loss on the part after the prompt. Each is a text that
/// continues the prompt like a completion, or a list of messages, written by the tokenizer's chat
/// template after those of the prompt, with loss on the assistant's messages. If "prompt" is not a
/// list, the common first messages of both sequences are the prompt. A sample's tokens are those of
/// both sequences; each has at most `context` inputs.
///
/// jsonl with columns: each line is an object, and each named field is a number, or nested lists of
/// numbers, with one shape in all lines except for the length of the outermost list.
/// MicroBatch::columns has them by name, [B, ...]: int64, or fp32 if a number in any line has a
/// fraction. Shorter lists are padded with 0, or with -100 if the name ends in "labels" or
/// "targets". The first column is also `inputs`, and "labels", or else "targets", is also `targets`
/// if it is integer. A sample has as many tokens as the first column's list, at most `context`. If
/// no line has an "attention_mask", it is 1 for values and 0 for padding of the first column.
///
/// parquet: the rows of tables, in order, like jsonl or conversations: one column per key. They are
/// converted to lines once, which are cached in SourceOptions::cache. Only if accrue was built with
/// Arrow.
///
/// images: fp32 [B, C, H, W], with -1 for pixel 0 and 1 for the largest. One folder per class (PNG,
/// JPEG; classes sorted by name, and spread evenly over the order of samples; the class is a folder
/// selected by the pattern: for "train/*/*.png", "train/*/images/*.png" and "train/**/*.png" the
/// first below "train", for "train/cat/*.png" "cat"), CIFAR-10 or CIFAR-100 binaries (.bin; fine
/// labels; class names from batches.meta.txt or fine_label_names.txt in the same folder, otherwise
/// numbers), or idx files (MNIST: the labels of X-images-idx3-ubyte are in X-labels-idx1-ubyte in
/// the same folder).
///
/// images with masks: PNG or JPEG files in the order of their paths, whatever the names of their
/// folders; targets are int64 [B, H, W], the class of each pixel. The mask of an image is the PNG
/// with the same name (without suffix); if mask folders have the names of image folders, the one in
/// the folder of the same name. It has the image's height and width and one number per pixel, of at
/// most 8 bits: grey, or an index into a palette. 255 is ignored (target -100), other numbers are
/// classes: `vocab`, or `classes`, or one more than the highest number in all masks, which are all
/// read for that. Throws a usage Error if an image has no mask, if two images have the same one, or
/// if its size or kind is wrong; fetch() and check_contents() throw if a number exceeds the
/// classes. A mask is scaled, cropped, padded (with the ignored value) and flipped like its image,
/// by the same draw, but scaled to the nearest pixel like Pillow's resize(NEAREST). Other changes
/// of data.augment only affect the image.
///
/// All images of a source are converted to one shape, by rules that only need their headers:
/// - Channels: 3 if any image is coloured, else 1. Grey becomes colour by repetition; colour
///   becomes grey (if SourceOptions::image states 1) by ITU-R 601-2 weights, (19595 R + 38470 G
///   + 7471 B + 32768) >> 16. Alpha is ignored, palettes become colours, and of 16 bits the higher
///   8 are used. The orientation in EXIF is ignored.
/// - Size: that of SourceOptions::image; else the one that more than half of the images have; else
///   a square whose side is the median (the lower of two) of the shorter sides, at most 224,
///   rounded down to a multiple of 32, or of 8 if it is less than 32.
/// - An image of another size is scaled, by the antialiased bilinear interpolation of Pillow's
///   resize(BILINEAR), to the smallest size of its proportions that covers the target size, and
///   cropped to its centre: for squares torchvision's Resize(side) and CenterCrop(side).
///
/// Files are read with pread: resident memory grows with the number of files and of JSON lines (12
/// bytes each), not with their size, and at most 64 files are open. Throws a usage Error with the
/// operation `what` (a config key) that names file and line or position if a glob matches nothing,
/// formats are mixed, a file is empty, truncated or corrupt, a line is not a sample or exceeds the
/// context, an id or label is out of range, no label counts, or all files together hold no sample.
/// Empty text files are allowed, because source trees contain many.
std::unique_ptr<Source> open_source(const SourceOptions& options, const std::string& what);

struct MixtureOptions {
  std::int64_t context = 256;  ///< the most tokens of a row
  bool packing = false;        ///< several samples share a row
};

/// Combines sources of tokens: the samples are those of all parts, one part after the other. A
/// sampler (batch::Sampler) decides how often each is drawn; the weights are stored for it, and
/// are part of the fingerprint. A micro-batch has samples of several parts, each in the same
/// row as in a single source. Parts must be opened without packing, but pairs with it, which
/// gives the end of each sequence. Throws a usage Error with the operation `what` if a part
/// holds images, a weight is not above 0, or `packing` is set and all samples have the same
/// length.
std::unique_ptr<Source> mix(std::vector<MixturePart> parts, const MixtureOptions& options,
                            const std::string& what);

/// Samples [begin, end) of another source: the training or the held-out part. Throws a usage Error
/// if the source does not have these samples.
std::unique_ptr<Source> slice(std::shared_ptr<const Source> source, std::int64_t begin,
                              std::int64_t end);

/// Converts byte tokens to text, for any bytes (not only UTF-8). Throws a usage Error for an id
/// that is not a byte.
std::string bytes_to_text(std::span<const std::int64_t> ids);
/// Converts text to byte tokens, 0-255.
std::vector<std::int64_t> text_to_bytes(std::string_view text);

}  // namespace accrue::data
