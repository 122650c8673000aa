// SPDX-License-Identifier: GPL-2.0
/*
 * Files in tracefs whose operations can be unloaded.
 *
 * tracefs knows no such files: it is built in, as is all that makes files
 * there. A regular file's operations are called without a lock; whoever is
 * about to open it when the module goes would be told by a kernel warning that
 * the module cannot be held, or find the operations freed. Who has a path to
 * the file (O_PATH) can even open it long after it was removed.
 *
 * Character devices have that solved: the operations of their inodes are a part
 * of the kernel, look under a lock for the device, hold its module and only
 * then call what the device has. So that is what our inodes are given, too. They
 * stay regular files to everybody else.
 */

#include <linux/cdev.h>
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/kobject.h>
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/tracefs.h>

#include "helpers.h"

struct user_events_file {
	struct dentry *dentry;
	struct cdev *device;
};

/**
 * user_events_create_file - create a file in the root of tracefs
 * @name: its name
 * @mode: its permissions
 * @data: its inode's private data
 *
 * Opening it fails with ENXIO until it is published.
 *
 * Context: process context, may sleep.
 * Return: the file, or NULL when tracefs refuses or there is no memory.
 */
struct user_events_file *user_events_create_file(const char *name, umode_t mode, void *data)
{
	struct user_events_file *file;

	file = kzalloc_obj(*file);
	if (!file)
		return NULL;
	file->device = cdev_alloc();
	if (!file->device)
		goto free_file;
	file->device->owner = THIS_MODULE;
	file->dentry = tracefs_create_file(name, mode, NULL, data, user_events_device_operations());
	if (!file->dentry)
		goto put_device;
	/* Read by whoever opens the file, from now on. */
	smp_store_release(&d_inode(file->dentry)->i_cdev, file->device);
	return file;

put_device:
	kobject_put(&file->device->kobj);
free_file:
	kfree(file);
	return NULL;
}

/* Lets everybody open it from now on, which calls these operations' open. */
void user_events_publish_file(struct user_events_file *file, const struct file_operations *ops)
{
	/* Whoever opens it sees what was made before. */
	smp_store_release(&file->device->ops, ops);
}

/*
 * A load that fails frees the module, whatever holds it. So it waits for tasks
 * that have found the device and hold the module for it: they are refused, as
 * the file is not published, and let go.
 */
static void wait_for_openers(void)
{
#ifdef CONFIG_MODULE_UNLOAD
	/* The one is the loader's. */
	while (module_refcount(THIS_MODULE) > 1)
		fsleep(1000);
#endif
}

/**
 * user_events_remove_file - remove a file
 * @file: the file. While the module is being loaded, this waits until nothing
 *        holds the module; when it is unloaded nothing does
 *
 * Context: process context, may sleep.
 * Return: can it still be open, as the module is neither loaded nor unloaded?
 */
bool user_events_remove_file(struct user_events_file *file)
{
	struct inode *inode = d_inode(file->dentry);
	enum module_state state = THIS_MODULE->state;

	ihold(inode);
	user_events_tracefs_remove(file->dentry);
	/* Who still has a path to it gets EIO, and finds no device. */
	make_bad_inode(inode);
	user_events_forget_device(inode);
	if (state == MODULE_STATE_COMING)
		wait_for_openers();
	kobject_put(&file->device->kobj);
	iput(inode);
	kfree(file);
	return state == MODULE_STATE_LIVE;
}

/*
 * To be called at the end of an open that succeeds. It holds the module twice
 * then, for the device and for the operations. With the last close of a real
 * device the kernel gives back both; with that of a regular file, the latter: it
 * looks at the inode's mode (S_ISCHR() in __fput()). That cannot be asked of a
 * kernel without a file system to open a file in, so nothing at load does. Where it
 * was otherwise, the first close would make the module's count of references wrong,
 * which the tests of loading look at.
 */
void user_events_file_opened(struct inode *inode)
{
	struct cdev *device = inode->i_cdev;

	kobject_put(&device->kobj);
	module_put(THIS_MODULE);
}

/*
 * Between two records of a listing: is there something that the current task has
 * to see to, outside of the kernel?
 */
bool user_events_is_interrupted(void)
{
	cond_resched();
	return signal_pending(current);
}
